package proxy

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/protocol"
)

// Headers that purser adds to answers. Headers of this prefix from another sender are taken out, in
// both directions.
const (
	HeaderPayment     = "Purser-Payment"         // id of the payment whose payload was sent
	HeaderAmount      = "Purser-Amount"          // what it is for, in the asset's smallest unit
	HeaderTransaction = "Purser-Transaction"     // 0x + 64 hex, once known
	HeaderDeclined    = "Purser-Declined"        // why a 402 was not paid, or not answered: a word
	HeaderDetail      = "Purser-Declined-Detail" // the same in words and figures, for people
	HeaderApproval    = "Purser-Approval"        // id of the approval that the payment needs
	HeaderError       = "Purser-Error"           // marks an answer that purser gave itself, with its reason

	ownPrefix = "Purser-"
)

// HeaderAgain is sent by clients: with the value "new" the request is a purchase of its own, also
// while an earlier one like it is settled and its answer was lost. It must not stand on requests
// that a library repeats by itself. An Idempotency-Key counts for more, and so does a payment that
// may not have moved yet.
const HeaderAgain = "Purser-Again"

// HeaderMaxAmount is sent by clients: the most that this request may cost, such as 0.05 or "0.05 USDC".
const HeaderMaxAmount = "Purser-Max-Amount"

// HeaderDryRun is sent by clients: with any value but 0 or false nothing is paid, and the 402 says
// what would be.
const HeaderDryRun = "Purser-Dry-Run"

// Reasons why a 402 reached the client, the values of Purser-Declined. The rules of
// policies are reasons as well, by their own names: "paused", "per-payment", "daily-budget",
// "doors", "validity", "unanswered", "redirected", "approval-needed", "approval-denied", …
//
// With the first group the 402 is the seller's, with its challenge: nothing of ours went to it. With
// caller-gone and key-revoked it has none, because a payment of an earlier call was not looked for. With
// idempotency-key-reused it has none, because the client calls it the request of an earlier payment.
// internal/declines tells people of each.
const (
	DeclinedBodyTooLarge   = "body-too-large"          // the request body is above the replay limits
	DeclinedBodyIncomplete = "body-incomplete"         // the client's request body could not be read to its end
	DeclinedUnasked        = "unasked"                 // a preflight, a prefetch or a HEAD: no program reads what would be bought
	DeclinedPlainHTTP      = "plain-http"              // http to a public address that is not listed in allow_http
	DeclinedNoChallenge    = "no-challenge"            // nothing in the 402 is an x402 challenge
	DeclinedUnreadable     = "challenge-unreadable"    // malformed, contradictory or too large
	DeclinedUnsupported    = "unsupported"             // no network, scheme or asset that purser pays with
	DeclinedTaken          = "challenge-taken"         // another payment has what the challenge chose to mark it
	DeclinedInUse          = "authorization-in-use"    // the seller wants its payment in the Authorization that the request has
	DeclinedUnready        = "network-unready"         // the network's RPC is needed to make the payment, and does not help
	DeclinedNoWallet       = "no-wallet"               // the key has no wallet on a network that purser pays on
	DeclinedNoProvider     = "no-wallet-provider"      // its wallet has no address
	DeclinedQuota          = "quota"                   // the plan's payments for this month are used up
	DeclinedFunds          = "insufficient-funds"      // the wallet holds too little
	DeclinedAllowance      = "allowance-needed"        // the wallet lets Permit2 move too little for a seller that wants that
	DeclinedWalletCode     = "wallet-code"             // the wallet has code that refuses the signatures of its key
	DeclinedRefused        = "verification-refused"    // our facilitator turned the payload down
	DeclinedNoFacilitator  = "no-facilitator"          // we are to settle, and have no facilitator
	DeclinedSellerSettles  = "seller-settles"          // the seller settles itself, and has the payload that we settled
	DeclinedSilent         = "facilitator-silent"      // our facilitator gave no verdict
	DeclinedNotSigned      = "not-signed"              // the wallet could not sign
	DeclinedReused         = "idempotency-key-reused"  // the Idempotency-Key stands for another request
	DeclinedKeyInvalid     = "idempotency-key-invalid" // the Idempotency-Key is none that could be kept to
	DeclinedMaxInvalid     = "max-amount-invalid"      // Purser-Max-Amount is no amount
	DeclinedDryRun         = "dry-run"                 // the client asked what would be paid; it would
	DeclinedUnavailable    = "store-unavailable"       // nothing can be journaled at the moment
	DeclinedReconciling    = "reconciling"             // the books are a backup's, and the chain has not told yet what is missing
	DeclinedClock          = "clock"                   // our clock and the RPC's or the facilitator's are far apart
	DeclinedCallerGone     = "caller-gone"             // the client left before anything was sent
	DeclinedCallerUnknown  = "caller-unknown"          // it cannot be seen whether the client is still there
	DeclinedSellerFailing  = "seller-failing"          // several payments to that host in a row have brought nothing
	DeclinedKeyRevoked     = "key-revoked"             // the key that pays was revoked
	DeclinedInternal       = "internal"                // our own fault; the log has it

	// With these there is a 503 of ours with Retry-After: nothing was begun. If too many payments of
	// the key have failed, or its calls had the RPC asked too often, overloaded stands in the seller's 402,
	// with Retry-After.
	DeclinedOverloaded = "overloaded"   // too much is under way or kept of request bodies, or too many dry runs are asked for
	DeclinedSpool      = "spool-failed" // the file that should keep the request body cannot be written

	// With these the payload has left, now or on an earlier call. The 402 carries no
	// challenge: a client that pays by itself would pay again.
	DeclinedNotDelivered = "paid-not-delivered" // the money moved, the seller answers 402 all the same
	DeclinedBefore       = "paid-before"        // the purchase was paid and delivered, and the seller does not give its answer again
	DeclinedOpen         = "payment-open"       // not known yet whether the money moved or will
	DeclinedVoid         = "payment-void"       // the money did not move and cannot any more
)

// ownReasons has the reason word for each error of this package.
var ownReasons = map[error]string{
	errKeyInvalid:    DeclinedKeyInvalid,
	errMaxInvalid:    DeclinedMaxInvalid,
	errCallerUnknown: DeclinedCallerUnknown,
	errTooLarge:      DeclinedBodyTooLarge,
	errIncomplete:    DeclinedBodyIncomplete,
	errGone:          DeclinedBodyIncomplete,
	errQuota:         DeclinedOverloaded,
	errSpool:         DeclinedSpool,

	protocol.ErrInUse: DeclinedInUse,
}

// declined returns the reason word for an error, and the payment in it that may have left, or may
// still settle, so that no challenge may be handed on.
func declined(err error) (reason string, left *pay.Payment) {
	var (
		rule    *pay.PolicyError
		held    *pay.ApprovalError
		open    *pay.OpenError
		failed  *pay.FailedError
		spent   *pay.SpentError
		failing *failingError
		unsent  *unsentError
		unpaid  *unpaidError
		dry     *dryRunError
		full    *admission.FullError
		none    *pay.NoWalletError
	)
	switch {
	case errors.As(err, &none) && none.Unpayable != "":
		return DeclinedUnsupported, nil
	case errors.As(err, &dry) && dry.refusal != nil:
		return declined(dry.refusal)
	case errors.As(err, &dry):
		return DeclinedDryRun, dry.quote.Earlier
	case errors.As(err, &rule):
		return rule.Rule, nil
	case errors.As(err, &held):
		return held.Rule(), nil
	case errors.As(err, &open):
		return DeclinedOpen, open.Payment
	case errors.As(err, &spent):
		return DeclinedNotDelivered, spent.Payment
	case errors.As(err, &failed):
		return failedReason(failed)
	case errors.As(err, &unsent):
		reason, _ = declined(unsent.cause)
		return reason, unsent.payment
	case errors.As(err, &unpaid):
		return unpaid.reason, nil
	case errors.As(err, &failing):
		return DeclinedSellerFailing, nil
	case errors.As(err, &full):
		return DeclinedOverloaded, nil
	}
	for ours, reason := range ownReasons {
		if errors.Is(err, ours) {
			return reason, nil
		}
	}
	return cmp.Or(declines.Of(pay.Code(err)).Word, DeclinedInternal), nil
}

// failedReason returns the reason word for a payment that failed before its payload was handed out.
func failedReason(f *pay.FailedError) (string, *pay.Payment) {
	reason := declines.Of(pay.Code(f.Cause)).Word
	switch p := f.Payment; {
	case p != nil && (p.State == pay.Settled || p.State == pay.Open && (!p.Refused || reason == DeclinedSilent)): // a repeat, perhaps
		return afterSend(p), p
	case reason != "":
		return reason, nil
	case f.Funds:
		return DeclinedFunds, nil
	case p != nil && p.State == pay.Void:
		return DeclinedNotSigned, nil
	}
	return DeclinedRefused, nil
}

// afterSend returns the reason word for a payment whose payload has left.
func afterSend(p *pay.Payment) string {
	switch {
	case p.State == pay.Settled:
		return DeclinedNotDelivered
	case p.Lives():
		return DeclinedOpen
	}
	return DeclinedVoid
}

// HandshakeError reports that an upstream was reached, and that TLS with it failed.
type HandshakeError struct {
	Host string
	Err  error
	// AskedForCertificate: the upstream has asked for a certificate of its client before, and got none.
	AskedForCertificate bool
}

func (e *HandshakeError) Error() string { return fmt.Sprintf("TLS with %s: %v", e.Host, e.Err) }
func (e *HandshakeError) Unwrap() error { return e.Err }

const (
	wordsNoCipher = "The upstream has refused the TLS handshake. It may have no cipher in common with purser, which speaks TLS 1.2 and 1.3 " +
		"with forward secrecy (ECDHE) and not the RSA key exchange of old servers"
	wordsCertificate = "The upstream's TLS wants a certificate of its client"
	wordsOldVersion  = "The upstream speaks an older TLS than purser does, which begins with TLS 1.2"
)

// failedHandshake tells the client why TLS with an upstream failed; "" for another failure. Doors whose
// transports make connections themselves have errors that tell no more than their text does.
func failedHandshake(err error) string {
	var (
		failed *HandshakeError
		alert  *net.OpError
		header tls.RecordHeaderError
	)
	text := err.Error()
	switch {
	case errors.As(err, &header), errors.Is(err, http.ErrSchemeMismatch):
		return "The upstream does not speak TLS on this port"
	case errors.As(err, &failed) && failed.AskedForCertificate:
		return wordsCertificate
	case errors.As(err, &alert) && alert.Op == "remote error": // as crypto/tls tells of alerts
		return refusedHandshake(alert.Err.Error())
	case strings.Contains(text, "tls: server selected unsupported protocol version"):
		return wordsOldVersion
	case strings.Contains(text, "tls: server chose an unconfigured cipher suite"):
		return wordsNoCipher
	case strings.Contains(text, "TLS handshake timeout"), errors.As(err, &failed) && timedOut(err):
		return "The TLS handshake with the upstream did not end in time"
	case errors.As(err, &failed):
		return "The TLS handshake with the upstream failed: the connection broke off"
	case strings.Contains(text, "tls: "):
		return "The TLS handshake with the upstream failed"
	}
	return ""
}

// refusedHandshake tells of the alert (RFC 8446 §6) with which an upstream has ended a handshake, by the words of
// crypto/tls.
func refusedHandshake(alert string) string {
	switch alert = strings.TrimPrefix(alert, "tls: "); alert {
	case "handshake failure", "insufficient security level":
		return wordsNoCipher
	case "protocol version not supported":
		return wordsOldVersion
	case "unrecognized name":
		return "The upstream's TLS knows no site of this name"
	case "certificate required", "bad certificate":
		return wordsCertificate
	case "internal error":
		return "The upstream's TLS has failed by a fault of its own, or knows no site of this name"
	}
	return "The upstream has refused the TLS handshake: " + alert
}

// whyUntrusted tells the client what is wrong with an upstream's certificate.
func whyUntrusted(failed *tls.CertificateVerificationError) string {
	var (
		invalid   x509.CertificateInvalidError
		otherHost x509.HostnameError
		unknown   x509.UnknownAuthorityError
		leaf      = failed.UnverifiedCertificates[0]
	)
	switch {
	case errors.As(failed.Err, &invalid) && invalid.Reason == x509.Expired:
		cert := invalid.Cert
		whose := ""
		if !cert.Equal(leaf) {
			whose = "is signed by one that "
		}
		if time.Now().After(cert.NotAfter) {
			return whose + "expired on " + cert.NotAfter.UTC().Format(time.RFC3339)
		}
		return whose + "is not valid before " + cert.NotBefore.UTC().Format(time.RFC3339)
	case errors.As(failed.Err, &otherHost):
		return "is for another host"
	case bytes.Equal(leaf.RawIssuer, leaf.RawSubject):
		return "is self-signed"
	case errors.As(failed.Err, &unknown):
		return "is signed by an authority that is not trusted"
	}
	return "is not valid"
}
