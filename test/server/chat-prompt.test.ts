import { afterAll, describe, expect, it } from 'vitest';
import { InvalidRequestError } from '../../src/errors.ts';
import { renderPrompt } from '../../src/server/chat/chat-prompt.ts';
import { JinjaChatTemplate } from '../../src/tokenizer/chat-template.ts';

const TRIMMING = new JinjaChatTemplate(
  '{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}',
  {},
);
const FORGETFUL = new JinjaChatTemplate('{{ messages[0].content }}', {});
const PARTED = new JinjaChatTemplate(
  '{% for m in messages %}{% for part in m.content %}<{{ part.text }}>{% endfor %}{% endfor %}.',
  {},
);
const VARIABLES = new JinjaChatTemplate('{{ mood }}/{{ reasoning_effort }}', {});

const messages = [
  { role: 'user', content: 'end' },
  { role: 'assistant', content: 'the end ' },
];

afterAll(() => Promise.all([TRIMMING, FORGETFUL, PARTED, VARIABLES].map((template) => template.close())));

describe('renderPrompt', () => {
  it('begins an answer unless it is told not to', async () => {
    expect(await renderPrompt(TRIMMING, messages, {})).toMatch(/\[assistant\]$/);
    expect(await renderPrompt(TRIMMING, messages, { add_generation_prompt: false })).toMatch(/\[end\]$/);
  });

  it('ends with the last message to be continued, spaces included, though its words occur in the template', async () => {
    expect(await renderPrompt(TRIMMING, messages, { continue_final_message: true })).toBe(
      '[user]end[end][assistant]the end ',
    );
  });

  it('continues the last part of a message as the template writes its parts', async () => {
    const parts = ['a', 'b '].map((text) => ({ type: 'text' as const, text }));
    const open = [{ role: 'assistant', content: parts }];
    expect(await renderPrompt(PARTED, open, { continue_final_message: true })).toBe('<a><b ');
    expect(await renderPrompt(TRIMMING, open, { continue_final_message: true })).toBe('[assistant]a\nb ');
    for (const content of [[], null]) {
      const empty = [{ role: 'assistant', content }];
      expect(await renderPrompt(TRIMMING, empty, { continue_final_message: true })).toBe('[assistant]');
    }
  });

  it('continues a message where the template writes it last, be it of nothing', async () => {
    const twice = new JinjaChatTemplate('{{ messages[-1].content }}|{{ messages[-1].content }}.', {});
    expect(await renderPrompt(twice, messages, { continue_final_message: true })).toBe('the end |the end ');
    await twice.close();
    const empty = [{ role: 'assistant', content: '' }];
    expect(await renderPrompt(FORGETFUL, empty, { continue_final_message: true })).toBe('');
  });

  it('refuses to continue a message that the template leaves out', async () => {
    await expect(renderPrompt(FORGETFUL, messages, { continue_final_message: true })).rejects.toThrow(
      InvalidRequestError,
    );
  });

  it('gives the template the variables of the request', async () => {
    const fields = { chat_template_kwargs: { mood: 'calm' }, reasoning_effort: 'low' as const };
    expect(await renderPrompt(VARIABLES, messages, fields)).toBe('calm/low');
    const defaultTemplateVariables = { mood: 'wild', reasoning_effort: 'high' };
    const render = (asked: typeof fields | object): Promise<string> =>
      renderPrompt(VARIABLES, messages, asked, { defaultTemplateVariables });
    expect(await render(fields)).toBe('calm/low');
    expect(await render({ reasoning_effort: null })).toBe('wild/high');
    await expect(renderPrompt(VARIABLES, messages, { chat_template_kwargs: { tools: [] } })).rejects.toThrow(
      'must not hold tools',
    );
  });
});
