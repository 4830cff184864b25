// A labelled list to choose from.

import { useId } from 'preact/hooks';

interface Properties {
  readonly label: string;
  readonly options: readonly string[];
  readonly value: string;
  readonly choose: (value: string) => void;
}

export function Choice({ label, options, value, choose }: Properties) {
  const id = useId();
  return (
    <span class="choice">
      <label for={id}>{label}</label>{' '}
      <select id={id} value={value} onChange={({ currentTarget }) => choose(currentTarget.value)}>
        {options.map((option) => (
          <option key={option} value={option}>
            {option === '' ? 'default' : option}
          </option>
        ))}
      </select>
    </span>
  );
}
