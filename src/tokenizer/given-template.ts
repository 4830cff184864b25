// --chat-template: a template in place of the model's own, as a file or as its text.

import { readFile } from 'node:fs/promises';
import { ConfigError, messageOf } from '../errors.ts';
import { defectOf } from './chat-template.ts';

/**
 * The source of the template.
 * @throws ConfigError where there is no such file, or the template does not compile: before anything is loaded.
 */
export async function readGivenTemplate(option: string): Promise<string> {
  const file = await readFile(option, 'utf8').catch((error: unknown) => error);
  if (typeof file !== 'string' && !/[{}\n]/.test(option)) {
    throw templateError(`expected a file with a chat template, or the template itself: ${messageOf(file)}`);
  }
  const source = typeof file === 'string' ? file : lineOf(option);
  const defect = defectOf(source);
  if (defect === null) return source;
  const where = typeof file === 'string' ? `${option}, ` : '';
  throw templateError(`the template does not compile: ${where}${defect}`);
}

/** On a command line a line break is written as \n. */
function lineOf(text: string): string {
  return text.includes('\n') ? text : text.replaceAll('\\n', '\n');
}

function templateError(message: string): ConfigError {
  return new ConfigError(`--chat-template: ${message}`, { param: 'chat-template' });
}
