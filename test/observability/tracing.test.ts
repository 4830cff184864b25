import { expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { Tracing } from '../../src/observability/tracing.ts';

const ABOUT = { serviceName: 'test', version: '1' };

it.each(['localhost:4318', 'nowhere', 'grpc://localhost:4317', ''])(
  'tracing refuses the address %j and shows one',
  async (endpoint) => {
    const started = Tracing.start({ ...ABOUT, endpoint });
    await expect(started).rejects.toThrow(ConfigError);
    await expect(started).rejects.toThrow('such as http://localhost:4318');
  },
);

it('a collector that is not there costs the traces, and nothing else', async () => {
  const tracing = await Tracing.start({ ...ABOUT, endpoint: 'http://127.0.0.1:1' });
  const span = tracing.request('llm_request', { traceparent: 'not a trace' });
  span.phase('queue', { from: 0, to: 1 });
  expect(span.call('decode').headers().traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
  span.end(new Error('it failed'));
  await tracing.stop();
});
