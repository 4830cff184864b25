// The frame of the page: two tabs, and the question for a key.

import { useEffect, useState } from 'preact/hooks';
import { unauthorized } from './api.ts';
import { ProxyDashboard } from './dashboard/proxy-dashboard.tsx';
import { ServerDashboard } from './dashboard/server-dashboard.tsx';
import { KeyForm } from './key-form.tsx';
import { Playground } from './playground/playground.tsx';

const TABS = ['playground', 'dashboard'] as const;
type Tab = (typeof TABS)[number];

export function App({ isProxy }: { isProxy: boolean }) {
  const [tab, setTab] = useState<Tab>(tabOfAddress);
  const [wantsKey, setWantsKey] = useState(false);
  // A new key begins both tabs anew.
  const [numKeys, setNumKeys] = useState(0);

  useEffect(() => {
    const ask = () => setWantsKey(true);
    const follow = () => setTab(tabOfAddress());
    unauthorized.addEventListener('unauthorized', ask);
    addEventListener('hashchange', follow);
    return () => {
      unauthorized.removeEventListener('unauthorized', ask);
      removeEventListener('hashchange', follow);
    };
  }, []);

  const entered = () => {
    setWantsKey(false);
    setNumKeys(numKeys + 1);
  };
  return (
    <>
      <header>
        <h1>svc{isProxy && ' proxy'}</h1>
        <nav>
          {TABS.map((name) => (
            <a key={name} href={`#${name}`} aria-current={name === tab ? 'page' : undefined}>
              {name}
            </a>
          ))}
        </nav>
      </header>
      {wantsKey && <KeyForm entered={entered} />}
      {/* Both go on while the other one is shown. */}
      <main key={numKeys}>
        <div hidden={tab !== 'playground'}>
          <Playground />
        </div>
        <div hidden={tab !== 'dashboard'}>{isProxy ? <ProxyDashboard /> : <ServerDashboard />}</div>
      </main>
    </>
  );
}

function tabOfAddress(): Tab {
  const named = location.hash.slice(1);
  return TABS.find((tab) => tab === named) ?? 'playground';
}
