// The one way in which an exchange with an instance can fail, and why it did.

/** connection: refused, reset or out of time; silent: vanished; cancelled: nobody wants the answer any more. */
export type LegFault = 'connection' | 'silent' | 'cancelled' | 'too long';

export class LegFailure extends Error {
  readonly fault: LegFault;

  constructor(fault: LegFault, message: string) {
    super(message);
    this.fault = fault;
  }
}
