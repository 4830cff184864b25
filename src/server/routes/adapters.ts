// POST /v1/load_lora_adapter and /v1/unload_lora_adapter: adapters that come and go while the server runs. They are there with
// SVC_ALLOW_RUNTIME_LORA_UPDATING=1 only, since who may call them lets the server read folders of its machine.

import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { AdapterError, ModelLoadError, messageOf } from '../../errors.ts';
import { parseBody } from '../parse-body.ts';
import type { ServerContext } from '../server-context.ts';

const text = z.string().max(4096).nullish();
const loadSchema = z.looseObject({
  lora_name: text,
  lora_path: text,
  base_model_name: text,
  load_inplace: z.boolean().nullish(),
});
const unloadSchema = z.looseObject({ lora_name: text });

export function adapterRoutes(app: FastifyInstance, context: ServerContext): void {
  app.post('/v1/load_lora_adapter', async (request, reply) => {
    const { engine } = context;
    const body = parseBody(loadSchema, request.body);
    const { lora_name: name, lora_path: path, base_model_name, load_inplace } = body;
    if (!name || !path) throw new AdapterError('Both lora_name and lora_path must be given, as texts');
    if (context.modelNames(engine).includes(name)) {
      throw new AdapterError(`${name} is a name of the model itself: give the adapter another`);
    }
    const module = { name, path, baseModelName: base_model_name ?? null };
    await engine.adapters.load(module, load_inplace ?? false).catch(blameAdapter);
    return reply.type('text/plain').send(`Success: LoRA adapter '${name}' added successfully.`);
  });
  app.post('/v1/unload_lora_adapter', async (request, reply) => {
    const { engine } = context;
    const { lora_name: name } = parseBody(unloadSchema, request.body);
    if (!name) throw new AdapterError('lora_name must be given, as a text');
    engine.adapters.unload(name);
    return reply.type('text/plain').send(`Success: LoRA adapter '${name}' removed successfully.`);
  });
}

/** The files are the client's choice, and so is what is wrong with them. */
function blameAdapter(error: unknown): never {
  if (error instanceof ModelLoadError) {
    throw new AdapterError(messageOf(error), { param: 'lora_path', cause: error });
  }
  throw error;
}
