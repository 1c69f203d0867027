// Package declines lists the reasons why purser does not pay for a request, in words for people. The
// docs and the answers of the doors are made from it. The decisions themselves are in pay and proxy.
package declines

import "strings"

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
}

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
			"per-payment", Policy, "the price is above the limit for one payment",
			"`purser limits KEY --max-payment …`, or do not buy",
		},
		{
			"daily-budget", Policy, "the key's budget of the day would be passed; open payments have taken their part",
			"wait for the next day (UTC), or `purser limits KEY --daily-budget …`",
		},
		{
			"monthly-budget", Policy, "the key's budget of the month would be passed; open payments have taken their part",
			"wait for the next month (UTC), or `purser limits KEY --monthly-budget …`",
		},
		{
			"host-per-payment", Policy, "the price is above the limit for one payment to this host",
			"`purser limits KEY --host 'HOST=max:…'`",
		},
		{
			"host-daily-budget", Policy, "the day's budget for this host, or its pattern, would be passed",
			"`purser limits KEY --host 'HOST=daily:…'`",
		},
		{
			"host-monthly-budget", Policy, "the month's budget for this host, or its pattern, would be passed",
			"`purser limits KEY --host 'HOST=monthly:…'`",
		},
		{
			"task-per-payment", Policy, "the price is above the limit for one payment of this task",
			"`purser limits KEY --task 'TASK=max:…'`",
		},
		{
			"task-daily-budget", Policy, "the day's budget of this task would be passed; `*` is that of all tasks without their own",
			"`purser limits KEY --task 'TASK=daily:…'`",
		},
		{
			"task-monthly-budget", Policy, "the month's budget of this task would be passed; `*` is that of all tasks without their own",
			"`purser limits KEY --task 'TASK=monthly:…'`",
		},
		{
			"max-amount", Policy, "the price is above the `Purser-Max-Amount` of the request itself, or above what a quote has named for it in the last five minutes",
			"raise it, or do not buy",
		},
		{
			"per-minute", Policy, "too many payments began in this minute",
			"wait for the next minute",
		},
		{
			"price-guard", Policy, "the price is several times what this endpoint was last paid",
			"check the seller; `--price-guard off` lets it through",
		},
		{
			"hosts", Policy, "the host is denied, or not among those allowed; or it has more than 253 bytes or a port above 65535",
			"`purser limits KEY --add-allow-host HOST`",
		},
		{
			"payees", Policy, "the payee is denied, or not among those allowed. On REST: the key has rules for hosts and none for payees",
			"`--add-allow-payee ADDRESS`",
		},
		{
			"doors", Policy, "the key may not pay through this door. Keys of `purser init` and `exec` pay at the proxy only",
			"`purser limits KEY --door …`, or another key",
		},
		{
			"unanswered", Policy, "20 payments to this host are open and have brought no answer",
			"repeat those requests, or wait until they expire; look at the seller",
		},
		{
			"redirected", Policy, "a paid answer of this site was a redirect less than a minute ago, and this may be where it led",
			"send an `Idempotency-Key` (or `Purser-Again: new`) to buy this as well, or ask again a minute later; look at the seller",
		},
		{
			"validity", Policy, "the seller's requirement is valid for less than 10 seconds",
			"the seller has to allow more",
		},
		{
			"amount", Policy, "the price is 0",
			"there is nothing to pay; tell the seller",
		},
		{
			"own-wallet", Policy, "the payee is the wallet that would pay",
			"there is nothing to pay; tell the seller",
		},
		{
			"challenge-too-large", Policy, "the requirement, or the URL of the resource, has more than 8 KiB",
			"tell the seller",
		},
		{
			"offer-differs", Policy, "the seller has signed other terms than it asks: a machine on the way may have changed the price or the payee",
			"ask the seller from another network",
		},
		{
			"offer-signature", Policy, "the seller's offer is not signed by the address that is paid, nor by one that you have listed",
			"ask the seller which address signs, then `purser limits KEY --offer-signer ADDRESS`",
		},
		{
			"offer-expired", Policy, "the offer that the seller has signed has ended",
			"repeat the request; look at the clocks",
		},
		{
			"offer-unreadable", Policy, "the seller's signed offers are malformed, or more than 32",
			"tell the seller",
		},
		{
			"approval-needed", Policy, "a person must approve this payment first; `Purser-Approval` names the approval",
			"`purser approvals`; once it is approved, repeat the same request",
		},
		{
			"approval-denied", Policy, "a person has denied this payment",
			"do not buy; after the approval's time, the same request asks anew",
		},
		{
			"paused", Policy, "the key, or everything, is paused",
			"`purser status`, `purser keys`, `purser audit`; then `purser resume` or `purser keys resume KEY`",
		},

		{
			"no-wallet", Unsent, "the key has no wallet on the seller's network, which purser could pay on",
			"`purser wallets --deleted` lists deleted ones; `purser wallets share WALLET --with KEY` or `purser wallets create --key KEY`",
		},
		{
			"no-wallet-provider", Unsent, "the wallet has no address: `PURSER_WALLETS` is `none`",
			"set `local`, and make a new wallet",
		},
		{
			"insufficient-funds", Unsent, "the wallet holds too little, less what is in open payments of all keys that draw from it",
			"`purser wallets`; send USDC to its address",
		},
		{
			"allowance-needed", Unsent, "the seller wants to be paid through Permit2, and the wallet lets Permit2 move too little",
			"`purser wallets approve WALLET`",
		},
		{
			"wallet-code", Unsent, "the wallet has code on the chain (a delegation by EIP-7702, or a contract). USDC asks that code about signatures, and it refuses those of the wallet's key",
			"remove the delegation, or pay from another wallet: `purser wallets create --key KEY`. Find out who set it; purser never does",
		},
		{
			"unsupported", Unsent, "the seller offers no network, scheme or token that purser pays with: a network of `PURSER_NETWORKS`, `exact` by EIP-3009 or Permit2, and `upto` if `PURSER_SCHEMES` has it, USDC. Permit2 needs an RPC of the network. Or it requires a `payment-identifier` whose schema does not allow purser's ids, or takes sign-ins and no payments",
			"none; the detail names what was offered",
		},
		{
			"no-challenge", Unsent, "the 402 has no x402 challenge that purser can read",
			"the detail names another way to pay, if one is known; see [a 402 that purser passes](#a-402-that-purser-passes)",
		},
		{
			"challenge-unreadable", Unsent, "the challenge is malformed, contradicts itself or is too large",
			"tell the seller",
		},
		{
			"unasked", Unsent, "the request is one that buys nothing: a browser's CORS preflight, prefetch, prerender, preview, report or ping, its own look for a site's icon, or a HEAD, which brings no content",
			"send GET, or the request itself, to buy; the detail says which it was. A seller has to answer preflights without a payment",
		},
		{
			"plain-http", Unsent, "the URL is http to a public host, where any machine on the way could forge the price",
			"use https, or list the host with `allow_http`",
		},
		{
			"verification-refused", Unsent, "your facilitator refused the payload",
			"`purser payments --state refused`, `purser payments show ID`",
		},
		{
			"not-signed", Unsent, "the wallet could not sign",
			"the log: `payment not signed`; see [the signer](#the-signer)",
		},
		{
			"quota", Unsent, "the plan's payments of this month are used up",
			"`purser organizations`; raise the plan, or `PURSER_PLANS=off`",
		},
		{
			"overloaded", Unsent, "too many payments of the key ended refused or void (100 a minute, 3,000 a day), or its calls had the RPC asked too often",
			"`purser payments --state refused` and `--state void`; wait",
		},
		{
			"idempotency-key-reused", Unsent, "the `Idempotency-Key` stands for another request, also while that one is refused or void and its authorization is still valid",
			"use one key for one request",
		},
		{
			"idempotency-key-invalid", Unsent, "the `Idempotency-Key` is not one value of 1–255 visible ASCII characters",
			"send a proper one, or none",
		},
		{
			"max-amount-invalid", Unsent, "`Purser-Max-Amount` is not one amount of USDC such as 0.05",
			"send a proper one, or none",
		},
		{
			"dry-run", Unsent, "the request has `Purser-Dry-Run`, and would be paid for; `quote` in the JSON says what",
			"send it without that header",
		},
		{
			"body-too-large", Unsent, "the request body is above `max_replay` and `max_spool`, so it cannot be sent again with the payment",
			"raise `max_spool`",
		},
		{
			"body-incomplete", Unsent, "the client's body could not be read to its end",
			"repeat the request",
		},
		{
			"caller-gone", Unsent, "the client left or half-closed its connection (it ended its sending side) before anything was sent. purser cannot tell these apart, and the repeat of a client that has left would be paid again",
			"keep the connection open until the answer has come, and repeat the request",
		},
		{
			"caller-unknown", Unsent, "purser cannot see whether the client is still there: something in front of the door detaches requests, or hides their connections",
			"take it out of the route",
		},
		{
			"seller-failing", Unsent, "five payments of this key to the host in a row brought nothing",
			"look at the seller; purser asks again after 30 s to 10 min",
		},
		{
			"key-revoked", Unsent, "the key that pays was revoked",
			"`purser keys`; give the door another key",
		},

		{
			"cross-site", Sidecar, "a page of another site made the request in a browser",
			"pages pay for nothing",
		},
		{
			"host", Sidecar, "the request's Host is not a name of this sidecar",
			"use its address, or `localhost`; set `PURSER_PUBLIC_URL`, or put the name into the site's address",
		},
		{
			"early-data", Sidecar, "the request came before the TLS handshake was over, so another machine may have sent it again",
			"repeat it",
		},

		{
			"store-unavailable", Unable, "the database cannot be written",
			"`purser status`, disk space, the log. purser resumes by itself",
		},
		{
			"reconciling", Unable, "a backup was restored, or the database has lost commits, and the chain has not told yet what was paid",
			"`purser reconcile --wait`; see [backups](operating.md#backups)",
		},
		{
			"clock", Unable, "purser's clock is more than 2 minutes from that of RPC or facilitator, or the RPC's latest block is that far ahead; or it is late by as much as the seller lets the payment be valid",
			"`purser status`; set the clock by NTP. See [the clock](#the-clock)",
		},
		{
			"overloaded", Unable, "too much is under way, too much of request bodies is kept, or the key asks for too many dry runs (300 a minute)",
			"wait; see [under load](operating.md#under-load)",
		},
		{
			"spool-failed", Unable, "the file for a request body cannot be written",
			"`spool_dir`, disk space",
		},
		{
			"internal", Unable, "a fault of purser's",
			"the log; please report it",
		},

		{
			"paid-not-delivered", Sent, "the money moved, and the seller answers 402 all the same",
			"tell the seller, with `Purser-Transaction`. The next request is a new purchase; with an `Idempotency-Key`, use another one",
		},
		{
			"paid-before", Sent, "the purchase under this `Idempotency-Key` was paid and delivered before; nothing was paid now, and the seller does not give its answer again",
			"use the first answer. To buy it once more: another `Idempotency-Key`; without one, `Purser-Again: new`",
		},
		{
			"payment-open", Sent, "a payment for this request has left, and its outcome is not known yet",
			"repeat the same request; it gets the same payment. `purser payments show ID`",
		},
		{
			"payment-void", Sent, "the payment was not made, and cannot be any more",
			"repeat the request",
		},
	}
}
