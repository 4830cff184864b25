// A real browser for the page: the system's Chromium, driven from outside.

import { existsSync } from 'node:fs';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { needs } from '../helpers/needs.ts';

const EXECUTABLE = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync);

export const needsBrowser = needs(EXECUTABLE !== undefined, 'there is no Chromium in /usr/bin');

export function startBrowser(): Promise<Browser> {
  // Root has no sandbox.
  return chromium.launch({ ...(EXECUTABLE && { executablePath: EXECUTABLE }), args: ['--no-sandbox'] });
}

export interface OpenPage {
  readonly page: Page;
  /** What went wrong in the page, and requests to anywhere but `url`. */
  readonly faults: readonly string[];
}

export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<OpenPage> {
  const page = await browser.newPage(options);
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol !== 'data:' && origin !== new URL(url).origin) faults.push(request.url());
  });
  await page.goto(url);
  return { page, faults };
}
