// Reads a tokenizer.model of SentencePiece: its pieces with their scores, and how text is prepared for them. Source of the field
// numbers: sentencepiece_model.proto.

import { ModelLoadError, messageOf } from '../../errors.ts';
import { type ProtobufField, protobufFields } from './protobuf-reader.ts';
import {
  MOST_PIECE_LENGTH,
  PIECE_TYPES,
  type Piece,
  type PieceType,
  type SentencePieceVocabulary,
} from './sentencepiece-document.ts';

const MODEL = { piece: 1, trainer: 2, normalizer: 3 } as const;
const PIECE = { text: 1, score: 2, type: 3 } as const;
const TRAINER = { modelType: 3, spacesEndWords: 24, byteFallback: 35 } as const;
const NORMALIZER = { charsMap: 2, addDummyPrefix: 3, removeExtraWhitespaces: 4 } as const;

const MODEL_TYPES: Readonly<Record<number, SentencePieceVocabulary['algorithm']>> = {
  1: 'unigram',
  2: 'bpe',
};

/**
 * @param path for messages
 * @throws ModelLoadError where the bytes are no such file, or of a kind that svc does not tokenise with.
 */
export function readSentencePieceModel(path: string, bytes: Uint8Array): SentencePieceVocabulary {
  if (isTiktoken(bytes)) {
    throw new ModelLoadError(
      `${path} is a vocabulary of tiktoken, which does not say how texts are split: expected a tokenizer.json beside it, which ` +
        'the release of the model for transformers has; put it there, or name it with --tokenizer',
    );
  }
  try {
    return readModel(bytes);
  } catch (cause) {
    throw new ModelLoadError(
      `${path} is no SentencePiece model that svc can read: ${messageOf(cause)}; expected a tokenizer.model of the unigram or BPE ` +
        'kind, or a tokenizer.json beside it',
      { cause },
    );
  }
}

/** Lines of a token in base64 and its rank. */
function isTiktoken(bytes: Uint8Array): boolean {
  return /^[A-Za-z0-9+/]+={0,2} \d+\r?\n/.test(Buffer.from(bytes.subarray(0, 200)).toString('latin1'));
}

function readModel(bytes: Uint8Array): SentencePieceVocabulary {
  const pieces: Piece[] = [];
  let modelType = 1;
  let hasByteFallback = false;
  let charsMap: Uint8Array | null = null;
  let addsDummyPrefix = true;
  let removesExtraSpaces = true;
  for (const field of protobufFields(bytes)) {
    if (field.number === MODEL.piece) pieces.push(readPiece(bytesOf(field)));
    if (field.number === MODEL.trainer) {
      for (const part of protobufFields(bytesOf(field))) {
        if (part.number === TRAINER.modelType) modelType = numberOf(part);
        if (part.number === TRAINER.byteFallback) hasByteFallback = numberOf(part) !== 0;
        if (part.number === TRAINER.spacesEndWords && numberOf(part) !== 0) {
          throw new RangeError('its spaces end words (treat_whitespace_as_suffix) and do not begin them');
        }
      }
    }
    if (field.number === MODEL.normalizer) {
      for (const part of protobufFields(bytesOf(field))) {
        if (part.number === NORMALIZER.charsMap) charsMap = bytesOf(part);
        if (part.number === NORMALIZER.addDummyPrefix) addsDummyPrefix = numberOf(part) !== 0;
        if (part.number === NORMALIZER.removeExtraWhitespaces) removesExtraSpaces = numberOf(part) !== 0;
      }
    }
  }
  const algorithm = MODEL_TYPES[modelType];
  if (algorithm === undefined) throw new RangeError(`it is of type ${modelType}, neither unigram nor BPE`);
  if (pieces.length === 0) throw new RangeError('it holds no pieces');
  return { algorithm, pieces, hasByteFallback, charsMap, addsDummyPrefix, removesExtraSpaces };
}

function readPiece(bytes: Uint8Array): Piece {
  let text = '';
  let score = 0;
  let type: PieceType = 'normal';
  for (const field of protobufFields(bytes)) {
    if (field.number === PIECE.text)
      text = new TextDecoder('utf8', { fatal: true, ignoreBOM: true }).decode(bytesOf(field));
    if (field.number === PIECE.score) score = numberOf(field);
    if (field.number === PIECE.type) {
      const known = PIECE_TYPES[numberOf(field)];
      if (known === undefined)
        throw new RangeError(`piece ${text} is of the unknown type ${numberOf(field)}`);
      type = known;
    }
  }
  if (text.length > MOST_PIECE_LENGTH)
    throw new RangeError(`a piece of ${text.length} characters, at most ${MOST_PIECE_LENGTH} are read`);
  return { text, score, type };
}

function bytesOf({ number, value }: ProtobufField): Uint8Array {
  if (typeof value !== 'number') return value;
  throw new RangeError(`field ${number} is a number, not bytes`);
}

function numberOf({ number, value }: ProtobufField): number {
  if (typeof value === 'number') return value;
  throw new RangeError(`field ${number} holds bytes, not a number`);
}
