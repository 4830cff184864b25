// The official tests of JSON Schema, as schemas with instances.

import { readFileSync } from 'node:fs';

export interface SuiteGroup {
  readonly draft: 'draft7' | '2020-12';
  readonly file: string;
  readonly description: string;
  readonly schema: unknown;
  readonly tests: readonly {
    readonly description: string;
    readonly data: unknown;
    readonly valid: boolean;
  }[];
}

type SuiteFile = Record<SuiteGroup['draft'], Record<string, Omit<SuiteGroup, 'draft' | 'file'>[]>>;

const PATH = new URL('../fixtures/json-schema-suite/suite.json', import.meta.url);
const DRAFT_7 = 'http://json-schema.org/draft-07/schema#';

/** All schemas; those of draft 7 say so. */
export function readSuite(): SuiteGroup[] {
  const suite: SuiteFile = JSON.parse(readFileSync(PATH, 'utf8'));
  return (['draft7', '2020-12'] as const).flatMap((draft) =>
    Object.entries(suite[draft]).flatMap(([file, groups]) =>
      groups.map((group) => ({ ...group, draft, file, schema: withDraft(draft, group.schema) })),
    ),
  );
}

function withDraft(draft: SuiteGroup['draft'], schema: unknown): unknown {
  if (draft !== 'draft7' || typeof schema !== 'object' || schema === null) return schema;
  return { $schema: DRAFT_7, ...schema };
}
