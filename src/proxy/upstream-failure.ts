/** connection: refused, reset or out of time; silent: vanished; cancelled: nobody wants the answer any more. */
export type UpstreamFault = 'connection' | 'silent' | 'cancelled' | 'too long';

/** Why a request to an instance has failed. */
export class UpstreamFailure extends Error {
  readonly fault: UpstreamFault;

  constructor(fault: UpstreamFault, message: string) {
    super(message);
    this.fault = fault;
  }
}
