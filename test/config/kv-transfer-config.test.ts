import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { addOptions, flagOptions, splitArguments } from '../../src/cli/flags.ts';
import { parseKvTransferConfig } from '../../src/config/kv-transfer-config.ts';
import { toEngineConfig } from '../../src/config/llm-options.ts';
import { engineConfig, environmentOptions, mergeOptions, serveConfig } from '../../src/config/merge.ts';
import { type OptionKey, SERVE_OPTIONS } from '../../src/config/options.ts';
import { ConfigError, NotAvailableError } from '../../src/errors.ts';

const GIB = 2 ** 30;
const PLAIN = { kv_connector: 'P2pNcclConnector', kv_role: 'kv_consumer' };
const PROXY = { proxy_ip: '10.0.1.1', proxy_port: '30001', http_port: '20002' };

interface Around {
  readonly port?: number;
  readonly secret?: string | null;
  readonly env?: NodeJS.ProcessEnv;
  readonly memoryBytes?: number;
}

function parse(json: Record<string, unknown> | null, around: Around = {}) {
  return parseKvTransferConfig(json, {
    port: 20002,
    secret: null,
    env: {},
    memoryBytes: 64 * GIB,
    ...around,
  });
}

/** The error of a configuration that is one of `PLAIN` with `fields`, and `extra` inside. */
function fault(
  fields: Record<string, unknown>,
  extra: Record<string, unknown> = {},
  around: Around = {},
): Error {
  try {
    parse({ ...PLAIN, kv_connector_extra_config: extra, ...fields }, around);
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error('nothing was thrown');
}

describe('--kv-transfer-config', () => {
  it('has defaults for all but connector and role', () => {
    expect(parse(PLAIN)).toEqual({
      role: 'kv_consumer',
      ip: '127.0.0.1',
      port: 14579,
      bufferBytes: 1e9,
      poolBytes: null,
      sendType: 'PUT_ASYNC',
      transport: 'auto',
      ncclChannels: 8,
      proxy: null,
      httpPort: null,
      secret: null,
    });
  });

  it('takes every field of the protocol, numbers also as texts', () => {
    const all = {
      ...PLAIN,
      kv_role: 'kv_both',
      engine_id: 'seven',
      kv_buffer_device: 'cuda',
      kv_buffer_size: '8e9',
      kv_rank: 0,
      kv_parallel_size: 2,
      kv_ip: '10.0.1.3',
      kv_port: '22001',
      kv_connector_module_path: null,
      enable_permute_local_kv: false,
      kv_load_failure_policy: 'recompute',
      kv_connector_extra_config: {
        ...PROXY,
        send_type: 'GET',
        mem_pool_size_gb: '3',
        transport: 'tcp',
        nccl_num_channels: '16',
      },
    };
    expect(parse(all, { secret: '0123456789abcdef' })).toEqual({
      role: 'kv_both',
      ip: '10.0.1.3',
      port: 22001,
      bufferBytes: 8e9,
      poolBytes: 4 * GIB,
      sendType: 'GET',
      transport: 'tcp',
      ncclChannels: 16,
      proxy: { ip: '10.0.1.1', port: 30001 },
      httpPort: 20002,
      secret: '0123456789abcdef',
    });
  });

  it.each([null, {}, { kv_connector: null, kv_role: null }])('%j asks for nothing', (json) => {
    expect(parse(json)).toBeNull();
  });

  it('reads a proxy of empty texts as none', () => {
    expect(
      parse({ ...PLAIN, kv_connector_extra_config: { proxy_ip: '', proxy_port: '' } })?.proxy,
    ).toBeNull();
  });

  it.each<[Record<string, unknown>, Record<string, unknown>, RegExp]>([
    [
      { kv_role: null },
      {},
      /kv_role: is missing beside kv_connector: add one of kv_producer, kv_consumer, kv_both/,
    ],
    [{ kv_connector: null }, {}, /kv_role: needs a connector: add "kv_connector": "P2pNcclConnector"/],
    [
      { kv_role: 'producer' },
      {},
      /kv_role: expected one of kv_producer, kv_consumer, kv_both, got "producer"/,
    ],
    [
      { kv_connector: 'P2pNcclConector' },
      {},
      /unknown connector P2pNcclConector; did you mean P2pNcclConnector\?/,
    ],
    [{ kv_prot: 1 }, {}, /kv_prot: unknown field; did you mean kv_port\?/],
    [{ send_type: 'PUT' }, {}, /send_type: unknown field; it belongs into kv_connector_extra_config/],
    [{}, { kv_port: 1 }, /kv_connector_extra_config\.kv_port: unknown field; it belongs beside/],
    [{ kv_port: 0 }, {}, /kv_port: expected a port from 1 to 65535, got 0/],
    [{ kv_port: 65536 }, {}, /kv_port: expected a port from 1 to 65535, got 65536/],
    [{ kv_port: 'x' }, {}, /kv_port: expected a port from 1 to 65535, got "x"/],
    [{ kv_buffer_size: '-1' }, {}, /kv_buffer_size: expected bytes, such as 2e9, got "-1"/],
    [{ kv_buffer_size: 65 * GIB }, {}, /kv_buffer_size: .* more than this machine has: give at most/],
    [
      { kv_ip: '0.0.0.0' },
      {},
      /kv_ip: 0\.0\.0\.0 is no address that peers can reach: give the address of one interface/,
    ],
    [{ kv_ip: 'localhost' }, {}, /kv_ip: expected an IP address/],
    [{ kv_port: 20002 }, {}, /kv_port: 20002 is that of --port/],
    [{ kv_buffer_device: 'tpu' }, {}, /kv_buffer_device: expected cuda or cpu/],
    [{}, { http_port: 20003 }, /http_port: 20003 differs from --port 20002: give both the same port/],
    [
      {},
      { proxy_ip: '10.0.1.1' },
      /proxy_port: is missing beside proxy_ip 10\.0\.1\.1: add "proxy_port": "30001"/,
    ],
    [{}, { proxy_port: 30001 }, /proxy_ip: is missing beside proxy_port 30001/],
    [{}, { proxy_ip: '10.0.1.1', proxy_port: 30001 }, /http_port: is missing, .*: add "http_port": "20002"/],
    [{}, { send_type: 'PUSH' }, /send_type: expected one of PUT, GET, PUT_ASYNC, got "PUSH"/],
    [{}, { transport: 'rdma' }, /transport: expected one of auto, shm, tcp, cuda-ipc, nccl, got "rdma"/],
    [
      {},
      { mem_pool_size_gb: 'much' },
      /mem_pool_size_gb: expected GiB, such as 32, or 0 for no pool, got "much"/,
    ],
    [
      {},
      { mem_pool_size_gb: 65 },
      /mem_pool_size_gb: 65 GiB are more than this machine has: give at most 64\.0/,
    ],
  ])('with %j and %j inside is refused with the fix', (fields, extra, message) => {
    const error = fault(fields, extra);
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toMatch(message);
  });

  it.each<[Record<string, unknown>, Record<string, unknown>, RegExp]>([
    [{ kv_connector: 'NixlConnector' }, {}, /NixlConnector is not available yet.*: use P2pNcclConnector/],
    [{ kv_connector: 'MooncakeConnector' }, {}, /use P2pNcclConnector/],
    [{ kv_connector: 'LMCacheConnectorV1' }, {}, /use P2pNcclConnector/],
    [
      { kv_connector_module_path: 'a.b' },
      {},
      /kv_connector_module_path a\.b is not available yet.*: leave it out/,
    ],
    [{ enable_permute_local_kv: true }, {}, /enable_permute_local_kv true is not available yet/],
    [
      { kv_load_failure_policy: 'fail' },
      {},
      /kv_load_failure_policy fail is not available yet.*: use recompute/,
    ],
  ])('with %j and %j inside says that it is not available', (fields, extra, message) => {
    const error = fault(fields, extra);
    expect(error).toBeInstanceOf(NotAvailableError);
    expect(error.message).toMatch(message);
  });

  it.each([
    [32, 64, 32],
    [1.1, 64, 2],
    [0.25, 64, 0.25],
    [0, 64, 0],
  ])('mem_pool_size_gb %d on a machine of %d GiB gives %d GiB', (given, memory, expected) => {
    const extra = { mem_pool_size_gb: given };
    const config = parse({ ...PLAIN, kv_connector_extra_config: extra }, { memoryBytes: memory * GIB });
    expect(config?.poolBytes).toBe(expected * GIB);
  });

  it('leaves the size of the pool to what is left where nobody says it', () => {
    expect(parse(PLAIN)?.poolBytes).toBeNull();
  });

  it('takes the address from SVC_HOST_IP only where kv_ip says nothing', () => {
    const env = { SVC_HOST_IP: '10.0.1.9' };
    expect(parse(PLAIN, { env })?.ip).toBe('10.0.1.9');
    expect(parse({ ...PLAIN, kv_ip: '10.0.1.3' }, { env })?.ip).toBe('10.0.1.3');
    expect(() => parse(PLAIN, { env: { SVC_HOST_IP: '0.0.0.0' } })).toThrow(
      /SVC_HOST_IP: 0\.0\.0\.0 is no address/,
    );
    expect(() => parse(PLAIN, { env: { SVC_HOST_IP: 'here' } })).toThrow(
      /SVC_HOST_IP: here is no IP address/,
    );
  });

  it('refuses a short secret without repeating it', () => {
    const { message } = fault({}, {}, { secret: 'tooshort' });
    expect(message).toMatch(/--kv-transfer-secret must have at least 16 characters, got 8/);
    expect(message).not.toContain('tooshort');
  });

  it('comes from flags, from dotted flags and from the environment alike', () => {
    const argv = [
      ...['--port', '20002', '--kv-transfer-config', '{"kv_connector": "P2pNcclConnector"}'],
      ...['--kv-transfer-config.kv_role', 'kv_producer', '--kv_transfer_config.kv_buffer_size=1e1'],
      ...Object.entries(PROXY).flatMap(([name, value]) => [
        `--kv-transfer-config.kv_connector_extra_config.${name}`,
        value,
      ]),
    ];
    const { args, dotted } = splitArguments(SERVE_OPTIONS, argv);
    const command = new Command('serve').exitOverride();
    addOptions(SERVE_OPTIONS, command);
    command.parse([...args], { from: 'user' });
    const env = environmentOptions(SERVE_OPTIONS, { SVC_KV_TRANSFER_SECRET: 'from the environment' });
    const merged = mergeOptions(env, flagOptions(SERVE_OPTIONS, command.opts(), dotted));
    expect(engineConfig('m', merged).kvTransfer).toMatchObject({
      role: 'kv_producer',
      bufferBytes: 10,
      proxy: { ip: '10.0.1.1', port: 30001 },
      httpPort: 20002,
      secret: 'from the environment',
    });
  });

  it('is not for new LLM()', () => {
    expect(() => toEngineConfig({ kvTransferConfig: PLAIN }, {})).toThrow(NotAvailableError);
    expect(() => toEngineConfig({ kvTransferConfig: PLAIN }, {})).toThrow(
      /leave it out, or start them with svc serve/,
    );
    expect(toEngineConfig({ kvTransferConfig: {} }, {}).kvTransfer).toBeNull();
  });
});

describe('--host beside a proxy', () => {
  const started = (host: string | null, kv_ip: string) => () => {
    const json = { ...PLAIN, kv_ip, kv_connector_extra_config: PROXY };
    const given: [OptionKey, unknown][] = [
      ['port', 20002],
      ['kvTransferConfig', json],
      ['host', host],
    ];
    const options = new Map(given.map(([key, value]) => [key, { value, origin: key }]));
    return serveConfig(mergeOptions(options)).engine.kvTransfer?.ip;
  };

  it('must be where the proxy looks for the server, or all of its addresses', () => {
    for (const host of [null, '0.0.0.0', '::', '192.0.2.7', 'name.of.it']) {
      expect(started(host, '192.0.2.7')()).toBe('192.0.2.7');
    }
    expect(started('localhost', '127.0.0.1')()).toBe('127.0.0.1');
    for (const host of ['127.0.0.1', 'localhost', '192.0.2.8']) {
      expect(started(host, '192.0.2.7')).toThrow(
        /kv_ip: 192\.0\.2\.7 is where the proxy looks for this server, which listens at --host/,
      );
    }
  });
});
