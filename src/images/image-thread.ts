// Entry of the thread that makes images ready: a photograph takes hundreds of milliseconds.

import { workerData } from 'node:worker_threads';
import { serveCalls } from '../util/call-thread.ts';
import type { ImageSettings } from './image-settings.ts';
import { makeImageProcessor } from './load-image-processor.ts';

const { settings }: { readonly settings: ImageSettings } = workerData.data;
const processor = makeImageProcessor(settings);

serveCalls(async (file: Uint8Array) => ({ value: await processor.read(file) }));
