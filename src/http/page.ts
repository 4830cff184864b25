// The page at `/`: a playground, and a dashboard of a server or of the proxy. It is made of ui/ by `npm run build`.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { FastifyInstance } from 'fastify';
import { ConfigError } from '../errors.ts';

/** The sources and what is built of them find the same file. */
const BUILT = new URL('../../dist/ui/page.html', import.meta.url);

/** @throws ConfigError where the page is not built. */
export function pageRoute(app: FastifyInstance, of: 'server' | 'proxy'): void {
  const page = builtPage().replace('data-of=""', `data-of="${of}"`);
  const policy = contentPolicy(page);
  app.get('/', async (_request, reply) =>
    reply.type('text/html; charset=utf-8').header('content-security-policy', policy).send(page),
  );
}

function builtPage(): string {
  try {
    return readFileSync(BUILT, 'utf8');
  } catch (cause) {
    throw new ConfigError('the page at / is not built: npm run build makes it, and --no-ui does without', {
      param: 'ui',
      cause,
    });
  }
}

/** The page runs its own script and asks its own server, nothing else. */
function contentPolicy(page: string): string {
  const script = /<script type="module">(.*?)<\/script>/s.exec(page)?.[1] ?? '';
  const digest = createHash('sha256').update(script).digest('base64');
  return [
    "default-src 'none'",
    `script-src 'sha256-${digest}'`,
    "style-src 'unsafe-inline'",
    'img-src data:',
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}
