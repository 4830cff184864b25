import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { takeForeignFlags } from '../../src/cli/foreign-flags.ts';
import {
  FOREIGN_OPTIONS,
  type ForeignOption,
  findForeign,
  foreignNotice,
} from '../../src/config/foreign-options.ts';
import { SERVE_OPTIONS } from '../../src/config/options.ts';
import { ConfigError, NotAvailableError } from '../../src/errors.ts';

const flags = FOREIGN_OPTIONS.flatMap((option) => option.flags.map((flag) => ({ flag, option })));
const own = SERVE_OPTIONS.keys.flatMap((key) => SERVE_OPTIONS.info(key).aliases ?? []);

/** What the command line says about `args`, where nothing is refused. */
const notices = (...args: string[]) => takeForeignFlags(args, findForeign).foreign.map(foreignNotice);

describe('options of other servers', () => {
  it('are refused without the value where that is a secret', () => {
    expect(() => notices('--hf-token', 'hf_SECRET')).toThrow(/^--hf-token is not available in svc/);
  });

  it('are listed once, and never when svc has them itself', () => {
    const names = flags.map(({ flag }) => flag);
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => SERVE_OPTIONS.find(name.replace(/^--/, '')) !== null)).toEqual([]);
    expect(names.filter((name) => own.includes(name))).toEqual([]);
  });

  it('are found with dashes and underscores, and those without a value behind --no-', () => {
    expect(findForeign('--swap_space')).toEqual(findForeign('--swap-space'));
    expect(findForeign('--no-disable-cascade-attn')).toMatchObject({ isNegated: true });
    expect(findForeign('--no-swap-space')).toBeNull();
    expect(findForeign('--nobody-has-this')).toBeNull();
  });

  it('may have true or false behind those without a value', () => {
    const { argv, foreign } = takeForeignFlags(
      ['serve', '--enable-chunked-prefill', 'False', '--headless', 'false', './model'],
      findForeign,
    );
    expect(argv).toEqual(['serve', './model']);
    expect(foreign.map(foreignNotice)).toHaveLength(2);
    expect(() => notices('--headless', 'True')).toThrow(/^--headless is not available in svc/);
  });

  const word = fc.stringMatching(/^[a-z0-9][a-z0-9={}":./]{0,8}$/);
  const words = fc.array(word, { minLength: 1, maxLength: 3 });
  /** Every way to write a flag with what belongs to it. */
  const written = fc
    .tuple(fc.constantFrom(...flags), word, words)
    .chain(([{ flag, option }, value, values]): fc.Arbitrary<string[]> => {
      const ways: Record<ForeignOption['takes'], string[][]> = {
        nothing: flag.startsWith('--') ? [[flag], [flag.replace('--', '--no-')]] : [[flag]],
        value: [[flag, value], [`${flag}=${value}`], [flag, '-1']],
        values: [[flag, ...values], [`${flag}=${value}`]],
        json: [[flag, value], [`${flag}=${value}`], [`${flag}.a.b`, value], [`${flag}.a=${value}`]],
      };
      return fc.constantFrom(...ways[option.takes]);
    });

  it('are taken out of a command line with all that belongs to them and nothing else', () => {
    fc.assert(
      fc.property(fc.array(written, { maxLength: 4 }), (foreign) => {
        const before = ['serve', './model', '--port', '1'];
        const { argv, foreign: found } = takeForeignFlags(
          [...before, ...foreign.flat(), '--seed', '2'],
          findForeign,
        );
        expect(argv).toEqual([...before, '--seed', '2']);
        expect(found).toHaveLength(foreign.length);
      }),
    );
  });

  it('behind -- are words like others', () => {
    expect(takeForeignFlags(['--', '--swap-space'], findForeign).argv).toEqual(['--', '--swap-space']);
  });

  it('that take nothing leave the next word alone', () => {
    expect(takeForeignFlags(['serve', '--disable-cascade-attn', './model'], findForeign).argv).toEqual([
      'serve',
      './model',
    ]);
  });

  it('need their value', () => {
    expect(() => takeForeignFlags(['--swap-space', '--port', '1'], findForeign)).toThrow(ConfigError);
    expect(() => takeForeignFlags(['--swap-space'], findForeign)).toThrow(/^--swap-space needs a value$/);
  });

  it('are explained where they ask for nothing', () => {
    expect(
      notices('--swap_space', '4', '--no-enable-chunked-prefill', '-dpn=0', '--enable-auto-tool-choice'),
    ).toEqual([
      expect.stringMatching(/^--swap_space 4 has no effect: .*nothing is swapped$/),
      expect.stringMatching(
        /^--no-enable-chunked-prefill has no effect: prompts are always computed in chunks/,
      ),
      expect.stringMatching(/^-dpn 0 has no effect: /),
      expect.stringMatching(/^--enable-auto-tool-choice has no effect: models may choose to call functions/),
    ]);
  });

  it.each([
    ['--enable-expert-parallel', /ranks of --tensor-parallel-size always share the experts of a layer/],
    ['--enable-eplb', /the same ones at all times$/],
    ['-O3', /decode steps that come again become CUDA graphs/],
    ['--disable-hybrid-kv-cache-manager', /layers with a window always keep the blocks that it reaches/],
  ])('tell of %s what is true of experts, graphs and windows', (flag, reason) => {
    expect(notices(flag)).toEqual([expect.stringMatching(reason)]);
  });

  it('are refused where they ask for something, with the reason and what to do', () => {
    const refusal = () => notices('--num-gpu-blocks-override', '512');
    expect(refusal).toThrow(NotAvailableError);
    expect(refusal).toThrow(
      '--num-gpu-blocks-override 512 is not available in svc: the KV cache is sized in bytes; use --kv-cache-memory-bytes',
    );
    expect(() => notices('-dpr', '2')).toThrow(/^-dpr 2 is not available in svc: /);
  });

  it('say what to do wherever some value is refused', () => {
    for (const { accepts, instead, reason, flags: names } of FOREIGN_OPTIONS) {
      expect(reason, names[0]).not.toBe('');
      expect(instead !== '', names[0]).toBe(accepts !== 'anything');
    }
  });
});
