import { describe, expect, it } from 'vitest';
import { createLogger } from '../../src/observability/log.ts';

function logged(
  level: 'debug' | 'info' | 'silent',
  write: (logger: ReturnType<typeof createLogger>) => void,
): string {
  let text = '';
  write(
    createLogger(level, (line) => {
      text += line;
    }),
  );
  return text;
}

describe('the log', () => {
  it('writes one readable line an event', () => {
    const text = logged('info', (logger) =>
      logger.info({ status: 200, url: '/v1', why: 'two words' }, 'request'),
    );
    expect(text).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z INFO {2}request status=200 url=\/v1 why="two words"\n$/);
  });

  it('keeps a line break in a field from making a second line', () => {
    expect(
      logged('info', (logger) => logger.info({ url: '/a\nERROR forged' }, 'request')).match(/\n/g),
    ).toHaveLength(1);
  });

  it('shows an error with its stack', () => {
    expect(logged('info', (logger) => logger.error({ err: new Error('broken') }, 'failed'))).toMatch(
      /ERROR failed .*Error: broken\n +at /,
    );
  });

  it('leaves out what is below its level', () => {
    const write = (logger: ReturnType<typeof createLogger>) => {
      logger.debug('detail');
      logger.info('news');
    };
    expect(logged('debug', write)).toMatch(/DEBUG detail\n.*INFO {2}news\n/);
    expect(logged('info', write)).not.toMatch(/detail/);
    expect(logged('silent', write)).toBe('');
  });
});
