// Package failpoint names the places where tests kill the process, and the protections that tests
// switch off. A program built without the tag `failpoints` contains none of it: Here does nothing,
// Off returns false, and the compiler removes both, with the names.
package failpoint

import "time"

// The places stand in the order in which a payment reaches them. A name begins with the package or
// door that does the step. Tests kill the process at each place, through each door that leads
// there.
const (
	// Decided: the terms are chosen. The journal has not been asked yet.
	Decided = "pay/decided"
	// StoreCommitting: operations are applied, and none of them is durable.
	StoreCommitting = "store/committing"
	// StoreCommitted: operations are durable, and their callers have not been told.
	StoreCommitted = "store/committed"
	// StoreCheckpointing: the journal has operations that the database lacks.
	StoreCheckpointing = "store/checkpointing"
	// StoreCheckpointed: the database has all operations, and the journal still has them as well.
	StoreCheckpointed = "store/checkpointed"
	// Journaled: the payment is in the journal, and not signed.
	Journaled = "pay/journaled"
	// Signed: the payload exists, and only this process has seen it.
	Signed = "pay/signed"
	// Departing: the payload is about to leave for the first time.
	Departing = "pay/departing"

	// BeforeVerify: /verify is about to be called.
	BeforeVerify = "pay/before-verify"
	// AfterVerify: /verify has answered, or failed.
	AfterVerify = "pay/after-verify"
	// BeforeSettle: /settle is about to be called.
	BeforeSettle = "pay/before-settle"
	// AfterSettle: the money has moved, and only the facilitator's answer says so.
	AfterSettle = "pay/after-settle"

	// ProxySending: the paid request is about to be written.
	ProxySending = "proxy/sending"
	// ProxyWritten: a request that carries a payment was written to the seller.
	ProxyWritten = "proxy/written"
	// ProxyAnswered: the header of the answer to a payload has arrived.
	ProxyAnswered = "proxy/answered"
	// ReceiptSeen: the answer has a receipt, and nothing of it is recorded.
	ReceiptSeen = "receipt/seen"
	// ProxyPiece: a piece of an answer's body has arrived, and was not passed on.
	ProxyPiece = "proxy/piece"
	// ProxyFinishing: the answer was written out, and the lease is still held.
	ProxyFinishing = "proxy/finishing"

	// Recording: the outcome of the payment is known, and the store does not have it.
	Recording = "pay/recording"
	// Recorded: the outcome is durable.
	Recorded = "pay/recorded"
	// APIAnswering: the 200 of POST /v1/pay is about to be written.
	APIAnswering = "api/answering"
	// APIAnswered: the 200 of POST /v1/pay was written.
	APIAnswered = "api/answered"
	// Releasing: the attempt has ended, and its lease is about to be released.
	Releasing = "pay/releasing"
	// Released: the lease was released.
	Released = "pay/released"

	// ReceiptPosted: a client has posted a receipt, and nothing of it is recorded.
	ReceiptPosted = "receipt/posted"
	// ReceiptRecorded: the outcome of the posted receipt is durable.
	ReceiptRecorded = "receipt/recorded"

	// RecoveryAcquired: recovery has acquired the lease of a payment.
	RecoveryAcquired = "recovery/acquired"
	// RecoveryLooked: recovery has gathered the evidence.
	RecoveryLooked = "recovery/looked"
	// RecoveryRecorded: the outcome is durable, and recovery has released the lease.
	RecoveryRecorded = "recovery/recorded"
)

// The places of a notice. No payment passes them.
const (
	// NoticeSending: a notice is durable, and is about to be sent.
	NoticeSending = "notice-sending"
	// NoticeSent: the receiver has answered, and the cursor was not moved.
	NoticeSent = "notice-sent"
)

// The places of a transaction of a wallet.
const (
	// CancelingKept: the order, or the terms of a transaction, are in the journal.
	CancelingKept = "canceling-kept"
	// ApprovingKept: the terms of an approval are in the journal.
	ApprovingKept = "approving-kept"
	// TransactionKept: the terms of the transaction are durable, and it is not signed.
	TransactionKept = "transaction-kept"
	// TransactionSigned: the transaction is signed, and was not sent.
	TransactionSigned = "transaction-signed"
	// TransactionSent: the RPC has answered, or failed.
	TransactionSent = "transaction-sent"
)

// The places of a move to another folder.
const (
	// MovePacking: the files are in a folder without a name, and the tar is about to be written.
	MovePacking = "move-packing"
	// MovePacked: everything is packed, checked, and without its name.
	MovePacked = "move-packed"
	// MoveRetired: the old folder is retired, and what was packed has no name yet.
	MoveRetired = "move-retired"
	// MoveDelivered: what was packed has its name, and the command has not told.
	MoveDelivered = "move-delivered"
)

// Places lists all of them.
func Places() []string {
	return []string{
		Decided, StoreCommitting, StoreCommitted, StoreCheckpointing, StoreCheckpointed, Journaled, Signed, Departing,
		BeforeVerify, AfterVerify, BeforeSettle, AfterSettle,
		ProxySending, ProxyWritten, ProxyAnswered, ReceiptSeen, ProxyPiece, ProxyFinishing,
		Recording, Recorded, APIAnswering, APIAnswered, Releasing, Released,
		ReceiptPosted, ReceiptRecorded,
		RecoveryAcquired, RecoveryLooked, RecoveryRecorded,
	}
}

// Variables of the environment that a test build reads.
const (
	// KillAt holds "place" or "place:n": the process kills itself when it reaches the place for the
	// nth time. The place [Anywhere] matches all. With "earlier>place:n", counting begins after the
	// earlier place was passed.
	KillAt = "PURSER_FAILPOINT"
	// SwitchedOff lists protections, separated by commas.
	SwitchedOff = "PURSER_UNPROTECTED"
	// ClockFile names a file that holds a duration, such as "1h": the process goes by a clock that
	// is so much ahead of the machine's. Tests set it forward while the process runs.
	ClockFile = "PURSER_CLOCK_FILE"
	// Anywhere matches every place.
	Anywhere = "*"
)

// Protections that tests switch off, to show that the tests can fail.
const (
	// Journal: a caller hears that a payment is in the journal only once it is durable there.
	Journal = "journal"
	// Repeats: a client that repeats a request gets its earlier payment.
	Repeats = "repeats"
	// Limits: a payment beyond a limit is refused.
	Limits = "limits"
	// Evidence: a lost answer proves nothing.
	Evidence = "evidence"
	// Guard: the proxy does not dial forbidden addresses.
	Guard = "guard"
	// Strip: headers for the proxy alone are not sent to sellers.
	Strip = "strip"
	// Browsers: pages of other sites cannot use the API.
	Browsers = "browsers"
	// Floods: one address cannot make keys without end.
	Floods = "floods"
	// Rooms: one key cannot take all the memory for request bodies.
	Rooms = "rooms"
)

// Lateness is the delay of the journal when its protection is switched off.
const Lateness = 3 * time.Second
