import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { EngineDeadError, InvalidRequestError, OverloadedError } from '../../src/errors.ts';
import { JinjaChatTemplate, type SpecialTokens } from '../../src/tokenizer/chat-template.ts';
import { RENDER_LIMITS } from '../../src/tokenizer/render-queue.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { turnsDuring } from '../helpers/turns.ts';

const CHATML =
  '{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}';
const HELLO = [{ role: 'user', content: 'Hello' }];
/** More steps than any machine takes in a test; each of them is small. */
const ENDLESS =
  '{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}';
/** Renders a greeting, but hangs for whoever says so. */
const MOODY = `{% if messages[0].content == 'hang' %}${ENDLESS}{% endif %}fine`;
const HANG = [{ role: 'user', content: 'hang' }];

const opened = closedAfterwards();

function template(source: string, specialTokens: SpecialTokens = {}, limits = {}): JinjaChatTemplate {
  return opened(new JinjaChatTemplate(source, specialTokens, { limits: { ...RENDER_LIMITS, ...limits } }));
}

/** Its thread may take a while to start. */
async function untilItTakesWork(from: JinjaChatTemplate): Promise<void> {
  while ((await render(from).catch(() => null)) === null);
}

const render = (from: JinjaChatTemplate, messages = HELLO) =>
  from.render(messages, { addGenerationPrompt: false });

describe('a chat template', () => {
  it('renders messages, special tokens and the generation prompt', async () => {
    const chatml = template(CHATML, { bos_token: '<s>', eos_token: '</s>' });
    expect(await chatml.render(HELLO, { addGenerationPrompt: true })).toBe(
      '<s><|user|>Hello</s><|assistant|>',
    );
    expect(await render(chatml)).toBe('<s><|user|>Hello</s>');
  });

  it('gives the variables of the caller', async () => {
    const variables = { enable_thinking: false, nested: { list: [1, 2.5, null] } };
    const rendered = template('{{ enable_thinking }} {{ nested }}').render(HELLO, {
      addGenerationPrompt: false,
      variables,
    });
    expect(await rendered).toBe("False {'list': [1, 2.5, None]}");
  });

  it('refuses variables that are no JSON, and renders the next conversation', async () => {
    const polite = template('{{ messages[0].content }}');
    const variables = { format: () => 'no' };
    await expect(polite.render(HELLO, { addGenerationPrompt: true, variables })).rejects.toThrow(
      /must be JSON/,
    );
    expect(await render(polite)).toBe('Hello');
  });

  it('passes on the words in which it refuses a conversation', async () => {
    await expect(render(template("{{ raise_exception('no system role') }}"))).rejects.toThrow(
      new InvalidRequestError('the chat template refuses these messages: no system role', {
        param: 'messages',
      }),
    );
  });

  it('answers a failure inside it with an error of the request that names the line', async () => {
    const failing = template('a\n{% if true %}\n{{ messages[0].nothing.there }}\n{% endif %}');
    await expect(render(failing)).rejects.toThrow(
      "the chat template fails on these messages: line 3: 'dict object' has no attribute 'nothing'",
    );
  });

  it('says where it does not compile, and how to go on', async () => {
    const broken = template('{% for %}');
    expect(broken.defect).toBe('line 1: unexpected %}, expected a name');
    await expect(render(broken)).rejects.toThrow(/does not compile: line 1: .*\/v1\/completions/);
  });

  it('is taken many times at once, and answers each', async () => {
    const chatml = template('{{ messages[0].content }}');
    const texts = Array.from({ length: 200 }, (_, index) => `message ${index}`);
    const all = texts.map((content) => render(chatml, [{ role: 'user', content }]));
    expect(await Promise.all(all)).toEqual(texts);
  });
});

it('renders the conversations of callers in turn', async () => {
  const chatml = template(CHATML);
  const order: string[] = [];
  const ask = async (name: string): Promise<void> => {
    await chatml.render(HELLO, { addGenerationPrompt: false, caller: name[0] });
    order.push(name);
  };
  await Promise.all(['a1', 'a2', 'a3', 'b1'].map(ask));
  expect(order).toEqual(['a1', 'a2', 'b1', 'a3']);
});

describe('a chat template that never ends', () => {
  it('is ended at its deadline with an error of the request, while this thread goes on', async () => {
    const hanging = expect(render(template(ENDLESS, {}, { timeoutMs: 1000 }))).rejects.toThrow(
      'the chat template goes beyond a limit with these messages: rendering takes longer than 1 seconds',
    );
    expect(await turnsDuring(hanging)).toBeGreaterThan(10);
  });

  it('leaves the next conversation its full time', async () => {
    const moody = template(MOODY, {}, { timeoutMs: 3000 });
    const hanging = render(moody, HANG);
    await expect(hanging).rejects.toThrow(InvalidRequestError);
    expect(await render(moody)).toBe('fine');
  });

  it('turns away those who wait too long behind it, and those beyond the bound of its queue', async () => {
    const moody = template(MOODY, {}, { waitMs: 500, maxQueued: 1, timeoutMs: 3000 });
    await untilItTakesWork(moody);
    const hanging = expect(render(moody, HANG)).rejects.toThrow(InvalidRequestError);
    const waiting = expect(render(moody)).rejects.toThrow(/has waited 0.5 seconds to be rendered/);
    await expect(render(moody)).rejects.toThrow(OverloadedError);
    await Promise.all([hanging, waiting]);
  });
});

describe('a chat template that takes all memory', () => {
  const kept = (item: string) =>
    `{% set ns = namespace(kept=[]) %}{% for a in range(99999) %}{% set ns.kept = [ns.kept, ${item}] %}{% endfor %}`;

  it.each([
    ['long texts', kept("('é€' * 4000000) | upper")],
    ['long lists', kept('[a] * 1000000')],
    ['lists of texts', kept("('a b ' * 200000).split()")],
    ['small values', `${kept('range(99999) | map("string") | list')}`],
  ])('in %s ends its thread, never the process, and the next one is rendered', async (_, source) => {
    const hungry = template(
      `{% if messages[0].content == 'hang' %}${source}{% endif %}fine`,
      {},
      { timeoutMs: 60_000, memoryMb: 64 },
    );
    await expect(render(hungry, HANG)).rejects.toThrow(
      'the chat template goes beyond a limit with these messages: rendering takes more than 64 MiB of memory',
    );
    expect(await render(hungry)).toBe('fine');
  });
});

describe('the thread that renders', () => {
  it('ends with close(), which rejects what it holds', async () => {
    const hanging = template(MOODY);
    expect(await render(hanging)).toBe('fine');
    const rejected = [HANG, HELLO].map((messages) =>
      expect(render(hanging, messages)).rejects.toThrow(EngineDeadError),
    );
    await hanging.close();
    await Promise.all(rejected);
    await expect(render(hanging)).rejects.toThrow(EngineDeadError);
  });

  it('does not hold a program that has what it wants', async () => {
    const module = new URL('../../src/tokenizer/chat-template.ts', import.meta.url).href;
    const program = `
      const { JinjaChatTemplate } = await import(${JSON.stringify(module)});
      const template = new JinjaChatTemplate('{{ messages[0].content }}', {});
      const text = await template.render([{ role: 'user', content: 'done' }], { addGenerationPrompt: true });
      console.log(text);`;
    const args = ['--import', 'tsx', '--input-type=module', '-e', program];
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 30_000 });
    expect(stdout).toBe('done\n');
  });
});
