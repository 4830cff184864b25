// Laws over arrays get as long ones as they ask for: by itself fast-check makes at most ten elements of whatever `maxLength` says.

import fc from 'fast-check';

fc.configureGlobal({ ...fc.readConfigureGlobal(), defaultSizeToMaxWhenMaxSpecified: true });
