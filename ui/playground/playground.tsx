// The playground: a conversation or a plain prompt, its parameters, and what the model makes of it.

import { useEffect, useState } from 'preact/hooks';
import { RefusedError, servedModels } from '../api.ts';
import { Choice } from './choice.tsx';
import { CodeButtons } from './code-buttons.tsx';
import { Composer } from './composer.tsx';
import { type Message, message } from './message.ts';
import { MessageView } from './message-view.tsx';
import { chatRequest, completionRequest } from './request-body.ts';
import { DEFAULT_SETTINGS } from './settings.ts';
import { SettingsForm } from './settings-form.tsx';
import { beforeAnswer, openCall, withText } from './turns.ts';
import { useGeneration } from './use-generation.ts';

export function Playground() {
  const [models, setModels] = useState<readonly string[]>([]);
  const [model, setModel] = useState<string | null>(null);
  const [mode, setMode] = useState('chat');
  const [system, setSystem] = useState('');
  const [messages, setMessages] = useState<readonly Message[]>([]);
  const [settings, setSettings] = useState(DEFAULT_SETTINGS);
  const generation = useGeneration();
  const isChat = mode === 'chat';

  useEffect(() => {
    const show = (names: readonly string[]) => {
      setModels(names);
      setModel(names[0] ?? null);
    };
    servedModels().then(show, (error) => {
      // The page asks for a key already.
      if (!(error instanceof RefusedError && error.status === 401)) generation.fail(error);
    });
  }, []);

  const requestFor = (conversation: readonly Message[]) => () => {
    if (!isChat) return completionRequest(model, settings, conversation[0]?.content ?? '');
    const first = system.trim() === '' ? [] : [message('system', system)];
    return chatRequest(model, settings, [...first, ...conversation]);
  };
  /** An answer that goes on would be shown behind what there was. */
  const cutTo = (conversation: readonly Message[]) => {
    generation.stop();
    setMessages(conversation);
  };
  const goOn = (conversation: readonly Message[]) => {
    setMessages(conversation);
    if (openCall(conversation) !== undefined) return;
    void generation.run(requestFor(conversation), (made) => setMessages([...conversation, made]));
  };
  const send = (text: string, images: readonly string[]) =>
    goOn(isChat ? withText(messages, text, images) : [message('user', text)]);
  const stopByKey = (event: KeyboardEvent) => {
    if (event.key === 'Escape') generation.stop();
  };
  const call = openCall(messages);
  const ofUser = isChat ? 'Message' : 'Prompt';

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape stops an answer wherever the focus is
    <div class="playground" onKeyDown={stopByKey}>
      <section class="conversation" aria-label="Conversation">
        <div class="bar">
          <Choice label="Model" options={models} value={model ?? ''} choose={setModel} />
          <Choice
            label="Mode"
            options={['chat', 'completion']}
            value={mode}
            choose={(chosen) => {
              setMode(chosen);
              cutTo([]);
            }}
          />
          {model !== null && (
            <CodeButtons request={requestFor(beforeAnswer(messages))} failed={generation.fail} />
          )}
        </div>
        {isChat && (
          <label class="system">
            System prompt
            <textarea
              rows={1}
              value={system}
              onInput={({ currentTarget }) => setSystem(currentTarget.value)}
            />
          </label>
        )}
        <div aria-live="polite" aria-busy={generation.isRunning}>
          {messages.map((shown, place) => (
            <MessageView key={place} message={shown} remove={() => cutTo(messages.slice(0, place))} />
          ))}
        </div>
        {generation.error !== null && (
          <p class="error" role="alert">
            {generation.error}
          </p>
        )}
        <Composer
          label={call === undefined ? ofUser : `Result of ${call.name}`}
          isRunning={generation.isRunning}
          isEmpty={messages.length === 0}
          takesImages={isChat && call === undefined}
          send={send}
          stop={generation.stop}
          retry={() => goOn(beforeAnswer(messages))}
          clear={() => setMessages([])}
          failed={generation.fail}
        />
      </section>
      <SettingsForm settings={settings} isChat={isChat} change={setSettings} />
    </div>
  );
}
