// Images of a conversation: where they are, and what templates write in their places.

import { describe, expect, it } from 'vitest';
import type { ContentFormat } from '../../src/config/content-formats.ts';
import { InvalidRequestError, MalformedRequestError } from '../../src/errors.ts';
import { renderPrompt } from '../../src/server/chat/chat-prompt.ts';
import { chatMessageSchema, toConversation } from '../../src/tokenizer/chat-messages.ts';
import { JinjaChatTemplate } from '../../src/tokenizer/chat-template.ts';
import type { ChatMessage } from '../../src/tokenizer/tokenizer.ts';
import { ImageSource } from '../../src/util/image-source.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';

const text = (it: string) => ({ type: 'text', text: it }) as const;
const image = (image_url: unknown) => ({ type: 'image_url', image_url });
const user = (...content: object[]) => ({ role: 'user', content });

function conversationOf(messages: object[], maxImages: number | null = 4) {
  return toConversation(
    messages.map((message) => chatMessageSchema.parse(message)),
    { maxImages },
  );
}

describe('the parts of a message', () => {
  it('that are images leave their places, and where they are to be had', () => {
    const messages = [
      { role: 'system', content: 'look' },
      user(text('a'), image({ url: 'data:1', detail: 'low' }), text('b'), image('http://2')),
      { role: 'tool', content: [image({ url: 'data:3' })] },
    ];
    expect(conversationOf(messages)).toEqual({
      messages: [
        messages[0],
        user(text('a'), { type: 'image' }, text('b'), { type: 'image' }),
        { role: 'tool', content: [{ type: 'image' }] },
      ],
      images: [
        new ImageSource('data:1', 'messages[1].content[1]'),
        new ImageSource('http://2', 'messages[1].content[3]'),
        new ImageSource('data:3', 'messages[2].content[0]'),
      ],
    });
  });

  it.each([undefined, null, 5, {}, { url: 5 }, { url: null }])('are no images without a URL: %j', (given) => {
    const read = () => conversationOf([user(image(given))]);
    expect(read).toThrow(MalformedRequestError);
    expect(read).toThrow('messages[0].content[0].image_url must be {"url": "..."}');
  });

  it.each([
    [
      null,
      /^messages\[0\]\.content\[0\] is of type "image_url", and this model reads only text: send parts of/,
    ],
    [0, /^messages must have at most 0 images \(--limit-mm-per-prompt\), got 3/],
    [2, /^messages must have at most 2 images \(--limit-mm-per-prompt\), got 3/],
  ])('are no more images than %s', (maxImages, message) => {
    const read = () => conversationOf([user(image('a'), image('b')), user(image('c'))], maxImages);
    expect(read).toThrow(InvalidRequestError);
    expect(read).toThrow(message);
  });

  it('are named where the model reads none of their type', () => {
    expect(() => conversationOf([user({ type: 'input_audio' })])).toThrow(
      'messages[0].content[0] is of type "input_audio", and this model reads texts and images: send parts of type "text" or "image_url"',
    );
  });
});

const opened = closedAfterwards();
const LOOP = (each: string): string =>
  `{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}${each}{% endfor %}{% endif %}{% endfor %}`;
/** As templates of models that see write it. */
const SEEING = LOOP("{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}");
/** Takes parts, and leaves out all that are no text. */
const BLIND = LOOP("{% if part.type == 'text' %}{{ part.text }}{% endif %}");
const SHOWN = user(text('a'), { type: 'image' }, text('b')) as ChatMessage;

function render(
  source: string,
  messages: readonly ChatMessage[],
  contentFormat: ContentFormat = 'auto',
  imageLine: string | null = null,
) {
  const template = opened(new JinjaChatTemplate(source, {}, { contentFormat, imageLine }));
  return template.render(messages, { addGenerationPrompt: false });
}

describe('a template', () => {
  it('of a model that sees writes its mark where an image is', async () => {
    const messages = [{ role: 'system', content: 'look' }, SHOWN, { role: 'user', content: [text('c')] }];
    expect(await render(SEEING, messages)).toBe('[system]look[user]a<image>b[user]c');
    expect(await render(SEEING, [SHOWN], 'openai')).toBe('[user]a<image>b');
    const alone = user({ type: 'image' }) as ChatMessage;
    expect(await render(SEEING, [alone])).toBe('[user]<image>');
  });

  it.each<[string, string, ContentFormat]>([
    ['leaves images out', BLIND, 'auto'],
    ['takes texts only', '{% for m in messages %}{{ m.content | trim }}{% endfor %}', 'auto'],
    ['is told to take texts only', SEEING, 'string'],
    ['fails on them', LOOP('{{ part.text.strip() }}'), 'auto'],
  ])('that %s is given none', async (_, source, format) => {
    const told = { role: 'user', content: 'c' };
    await expect(render(source, [told, SHOWN], format)).rejects.toThrow(
      /^messages\[1\] has an image, and the chat template writes none in messages of the role "user"/,
    );
    expect(await render(source, [told], format)).toContain('c');
  });

  it.each<[string, string, ContentFormat, string]>([
    ['leaves images out', BLIND, 'auto', '[user]a<mark>b'],
    ['takes texts only', '{% for m in messages %}{{ m.content | trim }}{% endfor %}', 'auto', 'a\n<mark>\nb'],
    ['is told to take texts only', SEEING, 'string', '[user]a\n<mark>\nb'],
  ])(
    'that %s is given a line of text for each, where that means one',
    async (_, source, format, expected) => {
      expect(await render(source, [SHOWN], format, '<mark>')).toBe(expected);
    },
  );

  it('that writes images has them as they are, whatever else would mean them', async () => {
    expect(await render(SEEING, [SHOWN], 'auto', '<mark>')).toBe('[user]a<image>b');
  });

  it('is given none in messages of a role for which it writes none', async () => {
    const source = `{% if messages[-1].role == 'tool' %}{{ messages[-1].content }}{% else %}${SEEING}{% endif %}`;
    expect(await render(source, [SHOWN])).toBe('[user]a<image>b');
    await expect(render(source, [SHOWN, { ...SHOWN, role: 'tool' }])).rejects.toThrow(
      /^messages\[1\] has an image.* of the role "tool"/,
    );
  });

  it('goes on behind the image that a message ends with', async () => {
    const template = opened(new JinjaChatTemplate(`${SEEING}.`, {}));
    const last = { role: 'assistant', content: [text('a'), { type: 'image' } as const] };
    expect(await renderPrompt(template, [last], { continue_final_message: true })).toBe(
      '[assistant]a<image>',
    );
  });
});
