// What the user sets in the playground, as text fields hold it: empty means the server's default.

export interface Settings {
  readonly isStream: boolean;
  readonly showsProbabilities: boolean;
  readonly numbers: Readonly<Record<string, string>>;
  readonly stop: string;
  /** JSON: a list of tools. */
  readonly tools: string;
  readonly toolChoice: string;
  /** JSON: a JSON Schema of the answer. */
  readonly schema: string;
}

export interface NumberField {
  /** In the body of the request. */
  readonly name: string;
  readonly label: string;
  readonly min: number;
  readonly max?: number;
  readonly step: number;
}

export const NUMBER_FIELDS: readonly NumberField[] = [
  { name: 'temperature', label: 'Temperature', min: 0, max: 2, step: 0.1 },
  { name: 'top_p', label: 'Top p', min: 0.01, max: 1, step: 0.01 },
  { name: 'top_k', label: 'Top k', min: -1, step: 1 },
  { name: 'min_p', label: 'Min p', min: 0, max: 1, step: 0.01 },
  { name: 'max_tokens', label: 'Most tokens', min: 1, step: 1 },
  { name: 'seed', label: 'Seed', min: 0, step: 1 },
  { name: 'presence_penalty', label: 'Presence penalty', min: -2, max: 2, step: 0.1 },
  { name: 'frequency_penalty', label: 'Frequency penalty', min: -2, max: 2, step: 0.1 },
  { name: 'repetition_penalty', label: 'Repetition penalty', min: 0.01, step: 0.01 },
];

export const DEFAULT_SETTINGS: Settings = {
  isStream: true,
  showsProbabilities: false,
  numbers: {},
  stop: '',
  tools: '',
  toolChoice: '',
  schema: '',
};
