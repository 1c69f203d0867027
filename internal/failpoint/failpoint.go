// Package failpoint names the places where tests end the process, or switch a protection
// off. Programs that are built without the tag `failpoints` contain none of it: Here does
// nothing, Off is false, and the compiler leaves both out, names and all.
package failpoint

import "time"

// The places, in the order in which a payment comes to them. A name begins with who does the
// step; tests end the process at every one of them, at every door that leads there.
const (
	// Decided: the terms are chosen, and the journal is about to be asked.
	Decided = "pay/decided"
	// StoreCommitting: operations are applied, and nothing of them is durable.
	StoreCommitting = "store/committing"
	// StoreCommitted: they are durable, and nobody was told.
	StoreCommitted = "store/committed"
	// Journaled: the payment is in the journal, and not signed.
	Journaled = "pay/journaled"
	// Signed: there is a payload, and nobody else has seen it.
	Signed = "pay/signed"
	// Departing: the payload is about to leave for the first time.
	Departing = "pay/departing"

	// BeforeVerify: the facilitator is about to be shown the payload.
	BeforeVerify = "pay/before-verify"
	// AfterVerify: it has answered, or failed to.
	AfterVerify = "pay/after-verify"
	// BeforeSettle: the facilitator is about to be told to settle.
	BeforeSettle = "pay/before-settle"
	// AfterSettle: the money has moved, and only the facilitator's answer says so.
	AfterSettle = "pay/after-settle"

	// ProxySending: the paid request is about to be written.
	ProxySending = "proxy/sending"
	// ProxyWritten: a request was written to the seller, with a payment or, if it is the first
	// one on its way, to ask for the price.
	ProxyWritten = "proxy/written"
	// ProxyAnswered: the header of the answer to a payload is there.
	ProxyAnswered = "proxy/answered"
	// ReceiptSeen: it has a receipt, of which nothing is noted.
	ReceiptSeen = "receipt/seen"
	// ProxyPiece: a piece of an answer's body is there, and not passed on.
	ProxyPiece = "proxy/piece"
	// ProxyFinishing: the answer was written out, and the lease is still held.
	ProxyFinishing = "proxy/finishing"

	// Recording: what became of the payment is known, and not handed to the store.
	Recording = "pay/recording"
	// Recorded: it is durable.
	Recorded = "pay/recorded"
	// APIAnswering: the 200 of POST /v1/pay is about to be written.
	APIAnswering = "api/answering"
	// APIAnswered: it was written.
	APIAnswered = "api/answered"
	// Releasing: the attempt is over, and its lease is about to be given back.
	Releasing = "pay/releasing"
	// Released: the lease was given back.
	Released = "pay/released"

	// ReceiptPosted: a client has posted a receipt, of which nothing is noted.
	ReceiptPosted = "receipt/posted"
	// ReceiptRecorded: what it says is durable.
	ReceiptRecorded = "receipt/recorded"

	// RecoveryAcquired: recovery has the lease of a payment.
	RecoveryAcquired = "recovery/acquired"
	// RecoveryLooked: the evidence is gathered.
	RecoveryLooked = "recovery/looked"
	// RecoveryRecorded: what it says is durable, and the lease is given back.
	RecoveryRecorded = "recovery/recorded"
)

// Places are all of them.
func Places() []string {
	return []string{
		Decided, StoreCommitting, StoreCommitted, Journaled, Signed, Departing,
		BeforeVerify, AfterVerify, BeforeSettle, AfterSettle,
		ProxySending, ProxyWritten, ProxyAnswered, ReceiptSeen, ProxyPiece, ProxyFinishing,
		Recording, Recorded, APIAnswering, APIAnswered, Releasing, Released,
		ReceiptPosted, ReceiptRecorded,
		RecoveryAcquired, RecoveryLooked, RecoveryRecorded,
	}
}

// The environment of a test build.
const (
	// KillAt is "place" or "place:n": the process ends itself with SIGKILL when it comes to
	// the place for the nth time. The place [Anywhere] is all of them. With "earlier>place:n"
	// nothing counts until the earlier place was passed.
	KillAt = "PURSER_FAILPOINT"
	// SwitchedOff lists protections, separated by commas.
	SwitchedOff = "PURSER_UNPROTECTED"
	// Anywhere stands for every place.
	Anywhere = "*"
)

// Protections that tests switch off, to see that what they prove can be wrong.
const (
	// Journal: nobody is told that a payment is in the journal before it is.
	Journal = "journal"
	// Repeats: who asks for the same thing again gets the payment of before.
	Repeats = "repeats"
	// Limits: what is above a limit is not paid.
	Limits = "limits"
	// Evidence: an answer that was lost proves nothing.
	Evidence = "evidence"
	// Guard: addresses that the proxy may not reach are not dialled.
	Guard = "guard"
	// Strip: a seller does not get to know what the proxy alone was told.
	Strip = "strip"
	// Browsers: pages of other sites are kept away from the API.
	Browsers = "browsers"
	// Floods: one address cannot make keys without end.
	Floods = "floods"
	// Rooms: one key cannot take all the room for request bodies.
	Rooms = "rooms"
)

// Lateness is by how much the journal comes too late when it is switched off.
const Lateness = 3 * time.Second
