// Package declines lists the reasons why purser does not pay for a request, in words for people. The
// docs and the answers of the doors are made from it. The decisions themselves are in pay and proxy.
package declines

import (
	"strings"

	"github.com/purserpay/purser/pay"
)

// Group says what a client gets, and what may have happened.
type Group string

// The groups, by their headings in docs/troubleshooting.md.
const (
	Policy  Group = "Rules of policy"
	Unsent  Group = "Before anything was sent"
	Sidecar Group = "At the sidecar only"
	Unable  Group = "When purser itself cannot"
	Sent    Group = "After the payment was sent"
)

// Reason is a word of the header Purser-Declined, or of purser's own answers.
type Reason struct {
	Word  string
	Group Group
	Why   string // Markdown
	Do    string // Markdown: what the client or operator can do

	// Codes lists errors of the pay core that have this reason at every door.
	Codes codes
	// ProxyCause: if a payment failed because of such an error, this is its reason at the proxy only.
	// REST gives "verification-refused".
	ProxyCause bool
}

type codes []pay.ErrorCode

// byCode has the reasons of errors that hold nothing else.
var byCode = func() map[pay.ErrorCode]Reason {
	found := map[pay.ErrorCode]Reason{}
	for _, r := range All() {
		for _, code := range r.Codes {
			found[code] = r
		}
	}
	return found
}()

// Of returns the reason of an error by its code; the zero Reason if the code has none.
func Of(code pay.ErrorCode) Reason { return byCode[code] }

// Why tells people of a reason in a sentence without markup; "" for a word that is none.
func Why(word string) string {
	for _, r := range All() {
		if r.Word == word {
			return strings.ReplaceAll(r.Why, "`", "")
		}
	}
	for _, r := range Refusals() {
		if r.Word == word {
			return strings.ReplaceAll(r.Why, "`", "")
		}
	}
	return ""
}

// All returns the reasons in the order of the docs. A word may stand in two groups.
func All() []Reason {
	return []Reason{
		{
			Word: "per-payment", Group: Policy, Why: "the price is above the limit for one payment",
			Do: "`purser limits KEY --max-payment …`, or do not buy",
		},
		{
			Word: "daily-budget", Group: Policy, Why: "the key's budget of the day would be passed; open payments have taken their part",
			Do: "wait for the next day (UTC), or `purser limits KEY --daily-budget …`",
		},
		{
			Word: "monthly-budget", Group: Policy, Why: "the key's budget of the month would be passed; open payments have taken their part",
			Do: "wait for the next month (UTC), or `purser limits KEY --monthly-budget …`",
		},
		{
			Word: "host-per-payment", Group: Policy, Why: "the price is above the limit for one payment to this host",
			Do: "`purser limits KEY --host 'HOST=max:…'`",
		},
		{
			Word: "host-daily-budget", Group: Policy, Why: "the day's budget for this host, or its pattern, would be passed",
			Do: "`purser limits KEY --host 'HOST=daily:…'`",
		},
		{
			Word: "host-monthly-budget", Group: Policy, Why: "the month's budget for this host, or its pattern, would be passed",
			Do: "`purser limits KEY --host 'HOST=monthly:…'`",
		},
		{
			Word: "task-per-payment", Group: Policy, Why: "the price is above the limit for one payment of this task",
			Do: "`purser limits KEY --task 'TASK=max:…'`",
		},
		{
			Word: "task-daily-budget", Group: Policy, Why: "the day's budget of this task would be passed; `*` is that of all tasks without their own",
			Do: "`purser limits KEY --task 'TASK=daily:…'`",
		},
		{
			Word: "task-monthly-budget", Group: Policy, Why: "the month's budget of this task would be passed; `*` is that of all tasks without their own",
			Do: "`purser limits KEY --task 'TASK=monthly:…'`",
		},
		{
			Word: "max-amount", Group: Policy, Why: "the price is above the `Purser-Max-Amount` of the request itself, or above what a quote has named for it in the last five minutes",
			Do: "raise it, or do not buy",
		},
		{
			Word: "per-minute", Group: Policy, Why: "too many payments began in this minute",
			Do: "wait for the next minute",
		},
		{
			Word: "price-guard", Group: Policy, Why: "the price is several times what this endpoint was last paid",
			Do: "check the seller; `--price-guard off` lets it through",
		},
		{
			Word: "hosts", Group: Policy, Why: "the host is denied, or not among those allowed; or it has more than 253 bytes or a port above 65535",
			Do: "`purser limits KEY --add-allow-host HOST`",
		},
		{
			Word: "payees", Group: Policy, Why: "the payee is denied, or not among those allowed. On REST: the key has rules for hosts and none for payees",
			Do: "`--add-allow-payee ADDRESS`",
		},
		{
			Word: "doors", Group: Policy, Why: "the key may not pay through this door. Keys of `purser init` and `exec` pay at the proxy only",
			Do: "`purser limits KEY --door …`, or another key",
		},
		{
			Word: "unanswered", Group: Policy, Why: "20 payments to this host are open and have brought no answer",
			Do: "repeat those requests, or wait until they expire; look at the seller",
		},
		{
			Word: "redirected", Group: Policy, Why: "a paid answer of this site was a redirect less than a minute ago, and this may be where it led",
			Do: "send an `Idempotency-Key` (or `Purser-Again: new`) to buy this as well, or ask again a minute later; look at the seller",
		},
		{
			Word: "validity", Group: Policy, Why: "the seller's requirement is valid for less than 10 seconds",
			Do: "the seller has to allow more",
		},
		{
			Word: "amount", Group: Policy, Why: "the price is 0",
			Do: "there is nothing to pay; tell the seller",
		},
		{
			Word: "own-wallet", Group: Policy, Why: "the payee is the wallet that would pay",
			Do: "there is nothing to pay; tell the seller",
		},
		{
			Word: "challenge-too-large", Group: Policy, Why: "the requirement, or the URL of the resource, has more than 8 KiB",
			Do: "tell the seller",
		},
		{
			Word: "offer-differs", Group: Policy, Why: "the seller has signed other terms than it asks: a machine on the way may have changed the price or the payee",
			Do: "ask the seller from another network",
		},
		{
			Word: "offer-signature", Group: Policy, Why: "the seller's offer is not signed by the address that is paid, nor by one that you have listed",
			Do: "ask the seller which address signs, then `purser limits KEY --offer-signer ADDRESS`",
		},
		{
			Word: "offer-expired", Group: Policy, Why: "the offer that the seller has signed has ended",
			Do: "repeat the request; look at the clocks",
		},
		{
			Word: "offer-unreadable", Group: Policy, Why: "the seller's signed offers are malformed, or more than 32",
			Do: "tell the seller",
		},
		{
			Word: "approval-needed", Group: Policy, Why: "a person must approve this payment first; `Purser-Approval` names the approval",
			Do: "`purser approvals`; once it is approved, repeat the same request",
		},
		{
			Word: "approval-denied", Group: Policy, Why: "a person has denied this payment",
			Do: "do not buy; after the approval's time, the same request asks anew",
		},
		{
			Word: "paused", Group: Policy, Why: "the key, or everything, is paused",
			Do: "`purser status`, `purser keys`, `purser audit`; then `purser resume` or `purser keys resume KEY`",
		},

		{
			Word: "no-wallet", Group: Unsent, Codes: codes{pay.CodeNoWallet}, ProxyCause: true,
			Why: "the key has no wallet on the seller's network, which purser could pay on",
			Do:  "`purser wallets --deleted` lists deleted ones; `purser wallets share WALLET --with KEY` or `purser wallets create --key KEY`",
		},
		{
			Word: "no-wallet-provider", Group: Unsent, Codes: codes{pay.CodeNoAddress},
			Why: "the wallet has no address: `PURSER_WALLETS` is `none`",
			Do:  "set `local`, and make a new wallet",
		},
		{
			Word: "insufficient-funds", Group: Unsent, Why: "the wallet holds too little, less what is in open payments of all keys that draw from it",
			Do: "`purser wallets`; send USDC to its address",
		},
		{
			Word: "allowance-needed", Group: Unsent, Codes: codes{pay.CodeAllowance},
			Why: "the seller wants to be paid through Permit2, and the wallet lets Permit2 move too little",
			Do:  "`purser wallets approve WALLET`",
		},
		{
			Word: "wallet-code", Group: Unsent, Codes: codes{pay.CodeWalletCode},
			Why: "the wallet has code on the chain (a delegation by EIP-7702, or a contract). USDC asks that code about signatures, and it refuses those of the wallet's key",
			Do:  "remove the delegation, or pay from another wallet: `purser wallets create --key KEY`. Find out who set it; purser never does",
		},
		{
			Word: "unsupported", Group: Unsent, Codes: codes{pay.CodeUnsupported}, ProxyCause: true,
			Why: "the seller offers no network, scheme or token that purser pays with: a network of `PURSER_NETWORKS`, `exact` by EIP-3009 or Permit2, and `upto` if `PURSER_SCHEMES` has it, USDC. Permit2 needs an RPC of the network. Or it requires a `payment-identifier` whose schema does not allow purser's ids, or takes sign-ins and no payments",
			Do:  "none; the detail names what was offered",
		},
		{
			Word: "no-challenge", Group: Unsent, Why: "the 402 has no x402 challenge that purser can read",
			Do: "the detail names another way to pay, if one is known; see [a 402 that purser passes](#a-402-that-purser-passes)",
		},
		{
			Word: "challenge-unreadable", Group: Unsent, Codes: codes{pay.CodeHeader},
			Why: "the challenge is malformed, contradicts itself or is too large",
			Do:  "tell the seller",
		},
		{
			Word: "unasked", Group: Unsent, Why: "the request is one that buys nothing: a browser's CORS preflight, prefetch, prerender, preview, report or ping, its own look for a site's icon, or a HEAD, which brings no content",
			Do: "send GET, or the request itself, to buy; the detail says which it was. A seller has to answer preflights without a payment",
		},
		{
			Word: "plain-http", Group: Unsent, Why: "the URL is http to a public host, where any machine on the way could forge the price",
			Do: "use https, or list the host with `allow_http`",
		},
		{
			Word: "verification-refused", Group: Unsent, Why: "your facilitator refused the payload",
			Do: "`purser payments --state refused`, `purser payments show ID`",
		},
		{
			Word: "not-signed", Group: Unsent, Why: "the wallet could not sign",
			Do: "the log: `payment not signed`; see [the signer](#the-signer)",
		},
		{
			Word: "quota", Group: Unsent, Codes: codes{pay.CodeQuota}, ProxyCause: true,
			Why: "the plan's payments of this month are used up",
			Do:  "`purser organizations`; raise the plan, or `PURSER_PLANS=off`",
		},
		{
			Word: "overloaded", Group: Unsent, Codes: codes{pay.CodeFailures, pay.CodeQuestions},
			Why: "too many payments of the key ended refused or void (100 a minute, 3,000 a day), or its calls had the RPC asked too often",
			Do:  "`purser payments --state refused` and `--state void`; wait",
		},
		{
			Word: "idempotency-key-reused", Group: Unsent, Codes: codes{pay.CodeReused},
			Why: "the `Idempotency-Key` stands for another request, also while that one is refused or void and its authorization is still valid",
			Do:  "use one key for one request",
		},
		{
			Word: "challenge-taken", Group: Unsent, Codes: codes{pay.CodeChallenge},
			Why: "the challenge has chosen what marks the payment, and another payment has it",
			Do:  "ask again, for a fresh challenge",
		},
		{
			Word: "idempotency-key-invalid", Group: Unsent, Why: "the `Idempotency-Key` is not one value of 1–255 visible ASCII characters",
			Do: "send a proper one, or none",
		},
		{
			Word: "max-amount-invalid", Group: Unsent, Why: "`Purser-Max-Amount` is not one amount of USDC such as 0.05",
			Do: "send a proper one, or none",
		},
		{
			Word: "dry-run", Group: Unsent, Why: "the request has `Purser-Dry-Run`, and would be paid for; `quote` in the JSON says what",
			Do: "send it without that header",
		},
		{
			Word: "body-too-large", Group: Unsent, Why: "the request body is above `max_replay` and `max_spool`, so it cannot be sent again with the payment",
			Do: "raise `max_spool`",
		},
		{
			Word: "body-incomplete", Group: Unsent, Why: "the client's body could not be read to its end",
			Do: "repeat the request",
		},
		{
			Word: "caller-gone", Group: Unsent, Codes: codes{pay.CodeCallerGone}, ProxyCause: true,
			Why: "the client left or half-closed its connection (it ended its sending side) before anything was sent. purser cannot tell these apart, and the repeat of a client that has left would be paid again",
			Do:  "keep the connection open until the answer has come, and repeat the request",
		},
		{
			Word: "caller-unknown", Group: Unsent, Why: "purser cannot see whether the client is still there: something in front of the door detaches requests, or hides their connections",
			Do: "take it out of the route",
		},
		{
			Word: "seller-failing", Group: Unsent, Why: "five payments of this key to the host in a row brought an error, another 402, an empty or broken answer, or none",
			Do: "`purser payments --undelivered` shows what was paid for nothing; purser asks again after 30 s to 10 min, unless you forbid the host with `purser limits KEY --add-deny-host HOST`",
		},
		{
			Word: "key-revoked", Group: Unsent, Codes: codes{pay.CodeKeyNotFound},
			Why: "the key that pays was revoked",
			Do:  "`purser keys`; give the door another key",
		},

		{
			Word: "cross-site", Group: Sidecar, Why: "a page of another site made the request in a browser",
			Do: "pages pay for nothing",
		},
		{
			Word: "host", Group: Sidecar, Why: "the request's Host is not a name of this sidecar",
			Do: "use its address, or `localhost`; set `PURSER_PUBLIC_URL`, or put the name into the site's address",
		},
		{
			Word: "early-data", Group: Sidecar, Why: "the request came before the TLS handshake was over, so another machine may have sent it again",
			Do: "repeat it",
		},

		{
			Word: "store-unavailable", Group: Unable, Codes: codes{pay.CodeUnavailable},
			Why: "the database cannot be written",
			Do:  "`purser status`, disk space, the log. purser resumes by itself",
		},
		{
			Word: "reconciling", Group: Unable, Codes: codes{pay.CodeReconciling}, ProxyCause: true,
			Why: "a backup was restored, or the database has lost commits, and the chain has not told yet what was paid",
			Do:  "`purser reconcile --wait`; see [backups](operating.md#backups)",
		},
		{
			Word: "clock", Group: Unable, Codes: codes{pay.CodeClock}, ProxyCause: true,
			Why: "purser's clock is more than 2 minutes from that of RPC or facilitator, or the RPC's latest block is that far ahead; or it is late by as much as the seller lets the payment be valid",
			Do:  "`purser status`; set the clock by NTP. See [the clock](#the-clock)",
		},
		{
			Word: "overloaded", Group: Unable, Why: "too much is under way, too much of request bodies is kept, or the key asks for too many dry runs (300 a minute)",
			Do: "wait; see [under load](operating.md#under-load)",
		},
		{
			Word: "spool-failed", Group: Unable, Why: "the file for a request body cannot be written",
			Do: "`spool_dir`, disk space",
		},
		{
			Word: "internal", Group: Unable, Why: "a fault of purser's",
			Do: "the log; please report it",
		},

		{
			Word: "paid-not-delivered", Group: Sent, Codes: codes{pay.CodeSpent},
			Why: "the money moved, and the seller answers 402 all the same",
			Do:  "tell the seller, with `Purser-Transaction`. The next request is a new purchase; with an `Idempotency-Key`, use another one",
		},
		{
			Word: "paid-before", Group: Sent, Why: "the purchase under this `Idempotency-Key` was paid and delivered before; nothing was paid now, and the seller does not give its answer again",
			Do: "use the first answer. To buy it once more: another `Idempotency-Key`; without one, `Purser-Again: new`",
		},
		{
			Word: "payment-open", Group: Sent, Codes: codes{pay.CodeOpen},
			Why: "a payment for this request has left, and its outcome is not known yet",
			Do:  "repeat the same request; it gets the same payment. `purser payments show ID`",
		},
		{
			Word: "payment-void", Group: Sent, Why: "the payment was not made, and cannot be any more",
			Do: "repeat the request",
		},
	}
}
