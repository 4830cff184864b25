// GET /v1/models on the wire.

export interface ModelCard {
  readonly id: string;
  readonly object: 'model';
  /** Unix seconds. */
  readonly created: number;
  readonly owned_by: 'svc';
  /** Folder or repository of the loaded model. */
  readonly root: string;
  readonly parent: null;
  readonly max_model_len: number;
  readonly permission: readonly ModelPermission[];
}

interface ModelPermission {
  readonly id: string;
  readonly object: 'model_permission';
  readonly created: number;
  readonly allow_create_engine: false;
  readonly allow_sampling: true;
  readonly allow_logprobs: true;
  readonly allow_search_indices: false;
  readonly allow_view: true;
  readonly allow_fine_tuning: false;
  readonly organization: '*';
  readonly group: null;
  readonly is_blocking: false;
}

export interface ModelList {
  readonly object: 'list';
  readonly data: readonly ModelCard[];
}
