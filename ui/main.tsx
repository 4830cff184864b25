// Begins the page in an empty body.

import { render } from 'preact';
import { App } from './app.tsx';
import './style.css';

render(<App isProxy={document.documentElement.dataset.of === 'proxy'} />, document.body);
