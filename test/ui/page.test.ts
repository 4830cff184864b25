// The page of `svc serve` and of the proxy in a real browser, against real servers.

import { execFileSync } from 'node:child_process';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tinyPicture, writeTinyVisionModel } from '../fixtures/tiny-vision-model.ts';
import { type SvcProcess, startServeProcess } from '../helpers/svc-process.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { closeAllAfterEach, TestProxy } from '../proxy/test-proxy.ts';
import { needsBrowser, openPage, startBrowser } from './browser.ts';

const newFolder = temporaryFolders();
const PHONE = { viewport: { width: 360, height: 640 }, colorScheme: 'dark' } as const;
const PATIENCE = { timeout: 20_000 };
const SECRET = 'key-of-the-page';
/** An answer that takes the slow backend many seconds, and that nothing but its length ends. */
const LONG_ANSWER = JSON.stringify({ type: 'array', minItems: 400, items: { type: 'integer' } });

let svc: SvcProcess;
let slow: SvcProcess;
beforeAll(async () => {
  [svc, slow] = await Promise.all([startServeProcess([]), startServeProcess(['--device', 'reference'])]);
});
afterAll(() => Promise.all([svc.stop(), slow.stop()]));

describe('the page', () => {
  it('runs its own script only, and asks its own server only', async () => {
    const response = await fetch(svc.url);
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      'text/html; charset=utf-8',
    ]);
    const policy = response.headers.get('content-security-policy');
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("connect-src 'self'");
    expect(policy).toMatch(/script-src 'sha256-[\w+/]{43}='/);
    expect((await response.text()).length).toBeLessThan(200_000);
  });

  it('is not there with --no-ui', async () => {
    const without = await startServeProcess(['--no-ui']);
    expect((await fetch(without.url)).status).toBe(404);
    await without.stop();
  });
});

describe('the page in a browser', needsBrowser, () => {
  closeAllAfterEach();
  let browser: Browser;
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser.close());

  it('streams a chat, shows probabilities on hover, and answers once more', async () => {
    const { page, faults } = await openPage(browser, svc.url);
    await page.getByLabel('Temperature').fill('0');
    await page.getByLabel('Token probabilities').check();
    await say(page, 'Message', 'Hello, who are you?');
    const answer = page.locator('.message.assistant');
    await answer.getByText(/stop · \d+ \+ \d+ tokens in/).waitFor();
    const before = await answer.locator('.text').innerText();
    expect(before).toContain('Svc');
    const token = answer.locator('.token').first();
    await token.hover();
    expect(await token.getByRole('tooltip').innerText()).toMatch(/"I"\s+\d+\.\d %/);
    await page.getByRole('button', { name: 'Retry' }).click();
    await answer.getByText(/stop · \d+ \+ \d+ tokens in/).waitFor();
    expect(await answer.count()).toBe(1);
    expect(await answer.locator('.text').innerText()).toBe(before);
    await say(page, 'Message', 'What is 3 + 4?');
    await expect.poll(() => page.locator('.message').count(), PATIENCE).toBe(4);
    expect(faults).toEqual([]);
    await page.close();
  });

  it('sends images that are picked, pasted or dropped', async () => {
    const folder = newFolder();
    writeTinyVisionModel(folder, { generationConfig: { max_new_tokens: 8 } });
    const seeing = await startServeProcess([folder]);
    const { page, faults } = await openPage(browser, seeing.url);
    const picture = Buffer.from(await tinyPicture(1, 20, 20));
    await page.getByLabel('Images').setInputFiles({ name: 'a.png', mimeType: 'image/png', buffer: picture });
    await handOver(page, 'paste', picture);
    await handOver(page, 'drop', picture);
    await page.getByRole('button', { name: 'Remove image 3' }).click();
    const sent = page.waitForRequest('**/v1/chat/completions');
    await say(page, 'Message', 'What is this?');
    const url = `data:image/png;base64,${picture.toString('base64')}`;
    const part = { type: 'image_url', image_url: { url } };
    expect((await sent).postDataJSON().messages).toEqual([
      { role: 'user', content: [part, part, { type: 'text', text: 'What is this?' }] },
    ]);
    await page.locator('.message.assistant').getByText('tokens in').waitFor();
    expect(await page.locator('.message.user img').count()).toBe(2);
    expect(await page.locator('.composer img').count()).toBe(0);
    expect(faults).toEqual([]);
    await page.close();
    await seeing.stop();
  });

  it('answers who writes before the server has told its models', async () => {
    const page = await browser.newPage();
    await page.route('**/v1/models', () => {});
    await page.goto(svc.url);
    await say(page, 'Message', 'Hello');
    await page.locator('.message.assistant').getByText('tokens in').waitFor();
    await page.close();
  });

  it('completes a prompt in one piece', async () => {
    const { page, faults } = await openPage(browser, svc.url);
    await page.getByLabel('Mode', { exact: true }).selectOption('completion');
    await page.getByLabel('Most tokens').fill('5');
    await page.getByLabel('Stream').uncheck();
    await say(page, 'Prompt', 'Once upon a time');
    const answer = page.locator('.message.assistant');
    await answer.getByText(/length · \d+ \+ 5 tokens in/).waitFor();
    expect(faults).toEqual([]);
    await page.close();
  });

  it('is stopped by Escape', async () => {
    const { page, faults } = await openPage(browser, slow.url);
    await beginLongAnswer(page);
    await page.keyboard.press('Escape');
    await page.locator('[aria-busy=false]').waitFor();
    await expect.poll(() => numRunning(slow), PATIENCE).toBe(0);
    expect(faults).toEqual([]);
    await page.close();
  });

  it.each(['remove a message', 'change the mode'])(
    'does not bring back what was said where people %s during an answer',
    async (how) => {
      const { page } = await openPage(browser, slow.url);
      await beginLongAnswer(page);
      if (how === 'change the mode') await page.getByLabel('Mode', { exact: true }).selectOption('chat');
      else
        await page
          .getByRole('button', { name: /remove/i })
          .first()
          .click();
      await page.locator('[aria-busy=false]').waitFor({ state: 'attached' });
      await expect.poll(() => numRunning(slow), PATIENCE).toBe(0);
      expect(await page.locator('.message').count()).toBe(0);
      await page.close();
    },
  );

  it('shows calls of custom tools, and sends what they give', async () => {
    const { page, faults } = await openPage(browser, svc.url);
    const grammar = { syntax: 'regex', definition: 'ls [a-c]' };
    const custom = { name: 'shell', format: { type: 'grammar', grammar } };
    await page.getByLabel('Most tokens').fill('60');
    await page.getByLabel('Tools (JSON)').fill(JSON.stringify([{ type: 'custom', custom }]));
    await page.getByLabel('Tool choice').selectOption('required');
    await say(page, 'Message', 'List it');
    await page.locator('.message.assistant').getByText('tokens in').waitFor();
    const calls = await page.locator('.message.assistant pre').allInnerTexts();
    expect(calls[0]).toMatch(/^shell\(ls [a-c]\)$/);
    await page.getByLabel('Tool choice').selectOption('none');
    for (const _ of calls) await say(page, 'Result of shell', 'nothing');
    // The calls have come back as they were; the template of this model has no place for results.
    await page.getByRole('alert').getByText('user and assistant, not tool').waitFor();
    expect(faults).toEqual([]);
    await page.close();
  });

  it('copies where the browser has no clipboard for pages, as at plain HTTP', async () => {
    const { page, faults } = await openPage(browser, svc.url);
    await page.evaluate("Object.defineProperty(window, 'isSecureContext', { value: false })");
    await page.getByRole('button', { name: 'curl' }).click();
    await page.getByRole('button', { name: 'curl ✓' }).waitFor();
    expect(faults).toEqual([]);
    await page.close();
  });

  it('tells what is wrong with a field, and what the server refused', async () => {
    const { page } = await openPage(browser, svc.url);
    await page.getByLabel('Tools (JSON)').fill('[{');
    await say(page, 'Message', 'Hello');
    await page.getByRole('alert').getByText('Tools is not JSON').waitFor();
    await page.getByLabel('Tools (JSON)').fill('');
    await page.getByLabel('Top p').fill('7');
    await page.getByRole('button', { name: 'Retry' }).click();
    await page.getByRole('alert').getByText('top_p').waitFor();
    await page.close();
  });

  it('copies a request that a shell can run', async () => {
    const { page } = await openPage(browser, svc.url, { permissions: ['clipboard-read', 'clipboard-write'] });
    await page.getByLabel('Stream').uncheck();
    await page.getByLabel('Most tokens').fill('3');
    await say(page, 'Message', "It's me");
    await page.locator('.message.assistant').getByText('tokens in').waitFor();
    await page.getByRole('button', { name: 'curl' }).click();
    await page.getByRole('button', { name: 'curl ✓' }).waitFor();
    const command = await page.evaluate('navigator.clipboard.readText()');
    const answer = execFileSync('sh', ['-c', `${command}`], { stdio: ['ignore', 'pipe', 'ignore'] });
    expect(JSON.parse(answer.toString())).toMatchObject({ usage: { completion_tokens: 3 } });
    await page.close();
  });

  it('has a dashboard that follows the server', async () => {
    const { page, faults } = await openPage(browser, `${svc.url}/#dashboard`);
    await page.getByText(/running 0/).waitFor();
    const body = JSON.stringify({ prompt: 'Hello', max_tokens: 20, ignore_eos: true });
    const headers = { 'content-type': 'application/json' };
    await fetch(`${svc.url}/v1/completions`, { method: 'POST', headers, body });
    await page.getByText(/answers [\d.]*[1-9]/).waitFor();
    await page
      .getByText(/p50 [\d.]+ ms/)
      .first()
      .waitFor();
    expect(await page.locator('figure canvas').count()).toBe(6);
    expect(faults).toEqual([]);
    await page.close();
  });

  it('fits a phone, and is dark where the phone is', async () => {
    const { page } = await openPage(browser, svc.url, PHONE);
    for (const tab of ['#playground', '#dashboard']) {
      await page.goto(`${svc.url}/${tab}`);
      await page.locator('h1').waitFor();
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    }
    expect(await page.evaluate('getComputedStyle(document.body).backgroundColor')).toBe('rgb(22, 24, 28)');
    await page.close();
  });

  it('asks for a key where the server wants one', async () => {
    const guarded = await startServeProcess(['--api-key', SECRET]);
    const { page } = await openPage(browser, guarded.url);
    const field = page.getByLabel('This server wants an API key.');
    await field.fill('another');
    await page.getByRole('button', { name: 'Use it' }).click();
    const again = page.getByLabel('That is none of the keys of this server.');
    await again.fill(SECRET);
    await page.getByRole('button', { name: 'Use it' }).click();
    await say(page, 'Message', 'Hello');
    await page.locator('.message.assistant').getByText('tokens in').waitFor();
    await page.close();
    await guarded.stop();
  });

  it('does not ask again because of a request that came before the key', async () => {
    const guarded = await startServeProcess(['--api-key', SECRET]);
    const page = await browser.newPage();
    let letGo = () => {};
    const held = new Promise<void>((resolve) => (letGo = resolve));
    await page.route('**/v1/models', (route) => held.then(() => route.continue()), { times: 1 });
    await page.goto(guarded.url);
    await say(page, 'Message', 'Hello');
    await page.getByLabel('This server wants an API key.').fill(SECRET);
    await page.getByRole('button', { name: 'Use it' }).click();
    const refused = page.waitForResponse((response) => response.status() === 401);
    letGo();
    await (await refused).finished();
    await say(page, 'Message', 'Hello');
    await page.locator('.message.assistant').getByText('tokens in').waitFor();
    expect(await page.locator('form.key').count()).toBe(0);
    await page.close();
    await guarded.stop();
  });

  it('draws the instances of the proxy and who passed what to whom', async () => {
    const proxy = await TestProxy.start();
    const [p, d] = await proxy.join('PD');
    const { page, faults } = await openPage(browser, `${proxy.url}/#dashboard`);
    await page.getByRole('heading', { name: 'Prefill (1)' }).waitFor();
    for (const instance of [p, d]) await page.getByText(instance?.httpAddress ?? '').waitFor();
    await proxy.client.completions.create({ model: '', prompt: 'Hello', max_tokens: 2 });
    await page.locator('.topology line').waitFor({ state: 'attached' });
    await d?.close();
    await page.locator('.instance.gone, .instance.suspect').waitFor();
    expect(faults).toEqual([]);
    await page.close();
  });
});

/** A file comes with an event, as from the clipboard or from another window. */
async function handOver(page: Page, event: 'paste' | 'drop', file: Uint8Array): Promise<void> {
  const [kind, field] =
    event === 'paste' ? ['ClipboardEvent', 'clipboardData'] : ['DragEvent', 'dataTransfer'];
  await page.evaluate(`
    const data = new DataTransfer();
    data.items.add(new File([Uint8Array.of(${file.join()})], 'b.png', { type: 'image/png' }));
    const event = new ${kind}('${event}', { bubbles: true, cancelable: true, ${field}: data });
    document.querySelector('.composer textarea').dispatchEvent(event);
  `);
}

async function say(page: Page, field: string, text: string): Promise<void> {
  await page.getByLabel(field, { exact: true }).fill(text);
  await page.keyboard.press('Enter');
}

/** Until the first words are there. */
async function beginLongAnswer(page: Page): Promise<void> {
  await page.getByLabel('Mode', { exact: true }).selectOption('completion');
  await page.getByLabel('Most tokens').fill('900');
  await page.getByLabel('JSON Schema of the answer').fill(LONG_ANSWER);
  await say(page, 'Prompt', 'Once upon a time');
  await page.locator('[aria-busy=true] .assistant .text').filter({ hasText: /./ }).waitFor();
}

async function numRunning({ url }: SvcProcess): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  return Number(/^svc:num_requests_running\{.*\} (\d+)$/m.exec(metrics)?.[1]);
}
