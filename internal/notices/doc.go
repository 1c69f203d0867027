// Package notices delivers the store's notices to people: by webhooks, to chats, and by mail. Each
// destination has a cursor in the store, which moves only behind what the destination has taken. So a
// notice is delivered at least once, and always under the same id (docs/design/stores.md, notices).
package notices
