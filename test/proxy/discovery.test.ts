import { describe, expect, it, onTestFinished } from 'vitest';
import { Dealer } from 'zeromq';
import { encodeRegistration } from '../../src/cluster/discovery-message.ts';
import { Discovery } from '../../src/proxy/discovery.ts';
import { until } from '../helpers/until.ts';

it('hears the registration after one that cannot be taken', async () => {
  const registered: string[] = [];
  const refused: string[] = [];
  const discovery = await Discovery.open({
    host: '127.0.0.1',
    port: 0,
    secret: null,
    registered: ({ http_address }) => {
      if (http_address === '10.0.0.1:1') throw new Error('no such instance can be');
      registered.push(http_address);
    },
    refused: (why) => refused.push(why),
  });
  onTestFinished(() => discovery.close());
  const zmqAddress = '10.0.0.1:5';
  const instance = new Dealer({ linger: 0, routingId: zmqAddress });
  onTestFinished(() => instance.close());
  instance.connect(`tcp://${discovery.address}`);
  for (const address of ['10.0.0.1:1', '10.0.0.1:2']) {
    await instance.send(encodeRegistration({ type: 'D', http_address: address, zmq_address: zmqAddress }));
  }
  await until(() => registered.length > 0);
  expect({ registered, refused }).toEqual({
    registered: ['10.0.0.1:2'],
    refused: ['no such instance can be'],
  });
});

describe('tells what to change', () => {
  const open = (host: string, port: number) =>
    Discovery.open({ host, port, secret: null, registered: () => {}, refused: () => {} });

  it('where the port is taken', async () => {
    const first = await open('127.0.0.1', 0);
    onTestFinished(() => first.close());
    const port = Number(first.address.split(':')[1]);
    await expect(open('127.0.0.1', port)).rejects.toThrow(
      `the discovery port ${port} cannot be bound on 127.0.0.1: stop the program that uses it or choose another --discovery-port`,
    );
  });

  it('where the address is not of this machine', async () => {
    await expect(open('198.51.100.7', 0)).rejects.toThrow(
      'this machine has no address 198.51.100.7: choose another --discovery-host',
    );
  });
});
