// The fields of a request, beside the conversation.

import { Choice } from './choice.tsx';
import { NUMBER_FIELDS, type Settings } from './settings.ts';

/** As in style.css: on a phone the fields are folded. */
const WIDE = '(min-width: 50rem)';

interface Properties {
  readonly settings: Settings;
  readonly isChat: boolean;
  readonly change: (settings: Settings) => void;
}

export function SettingsForm({ settings, isChat, change }: Properties) {
  const set = (part: Partial<Settings>) => change({ ...settings, ...part });
  return (
    <details class="settings" open={matchMedia(WIDE).matches}>
      <summary>Parameters</summary>
      <Check label="Stream" isOn={settings.isStream} set={(isStream) => set({ isStream })} />
      <Check
        label="Token probabilities"
        isOn={settings.showsProbabilities}
        set={(showsProbabilities) => set({ showsProbabilities })}
      />
      {NUMBER_FIELDS.map(({ name, label, ...range }) => (
        <label key={name}>
          {label}
          <input
            type="number"
            placeholder="default"
            {...range}
            value={settings.numbers[name] ?? ''}
            onInput={({ currentTarget: { value } }) =>
              set({ numbers: { ...settings.numbers, [name]: value } })
            }
          />
        </label>
      ))}
      <Area label="Stop texts, one a line" text={settings.stop} set={(stop) => set({ stop })} />
      {isChat && (
        <>
          <Area label="Tools (JSON)" text={settings.tools} set={(tools) => set({ tools })} />
          <Choice
            label="Tool choice"
            options={['', 'auto', 'none', 'required']}
            value={settings.toolChoice}
            choose={(toolChoice) => set({ toolChoice })}
          />
        </>
      )}
      <Area label="JSON Schema of the answer" text={settings.schema} set={(schema) => set({ schema })} />
    </details>
  );
}

function Check({ label, isOn, set }: { label: string; isOn: boolean; set: (isOn: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={isOn} onChange={({ currentTarget }) => set(currentTarget.checked)} />
      {label}
    </label>
  );
}

function Area({ label, text, set }: { label: string; text: string; set: (text: string) => void }) {
  return (
    <label>
      {label}
      <textarea
        rows={2}
        spellcheck={false}
        value={text}
        onInput={({ currentTarget }) => set(currentTarget.value)}
      />
    </label>
  );
}
