// The events of streams, which a client asks for again after its connection broke.

export class EventStore {
  #events = []; // of {id, stream, message}

  async storeEvent(stream, message) {
    const id = `${this.#events.length}`;
    this.#events.push({ id, stream, message });
    return id;
  }

  async getStreamIdForEventId(id) {
    return this.#events[Number(id)]?.stream;
  }

  async replayEventsAfter(last, { send }) {
    const stream = await this.getStreamIdForEventId(last);
    for (const event of this.#events.slice(Number(last) + 1)) {
      if (event.stream === stream && event.message.jsonrpc) await send(event.id, event.message);
    }
    return stream;
  }
}
