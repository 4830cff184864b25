// What the text of an answer must be: a plain description that crosses threads. The forms of the protocol (JSON Schema,
// regular expression, choice, grammar, tags) and the calls of each tool format are written in it.

export type Constraint =
  /** Exactly these characters. */
  | { readonly kind: 'literal'; readonly text: string }
  /** These characters, in which the text of a special token stands for that token alone. */
  | { readonly kind: 'mark'; readonly text: string }
  /** A regular expression in the dialect of JSON Schema (ECMA-262), for the whole text. */
  | { readonly kind: 'regex'; readonly pattern: string }
  /** A JSON text that the schema accepts; `true` accepts any, `{ type: 'object' }` any object. */
  | { readonly kind: 'jsonSchema'; readonly schema: unknown; readonly style?: JsonStyle }
  /** A grammar in EBNF, whose rule `root` is the whole text. */
  | { readonly kind: 'grammar'; readonly ebnf: string }
  | { readonly kind: 'sequence'; readonly parts: readonly Constraint[] }
  | { readonly kind: 'choice'; readonly options: readonly Constraint[] }
  /** `max` null: without end. */
  | {
      readonly kind: 'repeat';
      readonly item: Constraint;
      /** A mark. */
      readonly separator: string;
      readonly min: number;
      readonly max: number | null;
    }
  /**
   * Free text, special tokens included, until one of the triggers appears; from there on it must be one of the tags whose
   * `begin` starts with that trigger, after which the text is free again. Triggers are marks; a trigger of no tag never comes,
   * and neither does one whose special tokens are spelled in characters.
   */
  | {
      readonly kind: 'triggeredTags';
      readonly triggers: readonly string[];
      readonly tags: readonly Tag[];
      /** Without a tag the text must not end. */
      readonly atLeastOne: boolean;
      /** Nothing may follow the first tag. */
      readonly stopAfterFirst: boolean;
    };

/** How the JSON text of a schema is written, and what of the schema counts. */
export interface JsonStyle {
  /** No whitespace between tokens; else a space or an indented new line between any two. */
  readonly compact?: boolean;
  /** Objects take no further properties where one schema alone describes them, and does not say whether they may. */
  readonly closedObjects?: boolean;
  /**
   * A mark on either side of a string in the place of ", as some models have it: nothing is escaped, and the mark is nowhere else.
   * Keys have it where they could not be told from what is around them.
   */
  readonly quote?: string;
  /** `format` is a note, as the specification has it; else the formats of the README are enforced. */
  readonly ignoreFormats?: boolean;
}

/** Its texts are marks. */
export interface Tag {
  readonly begin: string;
  readonly content: Constraint;
  readonly end: string;
}
