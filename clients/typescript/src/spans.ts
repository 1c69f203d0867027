// Spans of OpenTelemetry, whose API is known here by its form only: it is no dependency.
import { isPurserError } from "./errors.js";
import type { PaymentSummary } from "./purchase.js";

/** The members of OpenTelemetry's `Tracer` that are needed here. */
export interface Tracer {
  startSpan(name: string, options: { kind: number; startTime: number; attributes: Record<string, string> }): Span;
}

interface Span {
  setStatus(status: { code: number; message?: string }): unknown;
  end(): void;
}

const client = 2; // SpanKind.CLIENT
const failed = 2; // SpanStatusCode.ERROR

/** Makes the span of a purchase that has ended. One that came neither to a payment nor to an error of ours has none. */
export function trace(
  tracer: Tracer,
  startTime: number,
  about: { host: string; task: string | undefined },
  paid: PaymentSummary | undefined,
  error?: unknown,
): void {
  const ours = isPurserError(error) ? error : undefined;
  if (!paid && !ours) return;
  const known = {
    "server.address": about.host,
    "purser.task": about.task,
    "purser.payment.id": paid?.id,
    "purser.amount": paid?.amount,
    "purser.pay_to": paid?.payTo,
    "purser.transaction": paid?.transaction,
    "purser.state": paid?.state,
    "error.type": ours?.code,
  };
  const attributes = Object.fromEntries(Object.entries(known).filter((entry): entry is [string, string] => Boolean(entry[1])));
  const span = tracer.startSpan("purser.payment", { kind: client, startTime, attributes });
  if (ours) span.setStatus({ code: failed, message: ours.message });
  span.end();
}
