// Package declines lists the reasons why purser does not pay for a request, in words for people. The
// docs and the answers of the doors are made from it. The decisions themselves are in pay and proxy.
package declines

import "github.com/purserpay/purser/pay"

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

	// Developer and Operator say, in Markdown, what each of them can do: the person who writes the agent, and
	// the one who runs purser. [Do] tells them.
	Developer, Operator string

	// Codes lists errors of the pay core that have this reason at every door.
	Codes codes
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

// All returns the reasons in the order of the docs. A word may stand in two groups.
func All() []Reason {
	return []Reason{
		{
			Word: "per-payment", Group: Policy, Why: "the price is above the limit for one payment",
			Developer: "do not buy, or ask the operator for a higher limit",
			Operator:  "`purser limits KEY --max-payment …` raises the limit",
		},
		{
			Word: "hourly-budget", Group: Policy, Why: "the key's budget of the hour would be passed; open payments have taken their part",
			Developer: "repeat the request in the next hour by the clock; `Retry-After` says when",
			Operator:  "wait, or `purser limits KEY --hourly-budget …`",
		},
		{
			Word: "daily-budget", Group: Policy, Why: "the key's budget of the day would be passed; open payments have taken their part",
			Developer: "repeat the request on the next day (UTC); `Retry-After` says when",
			Operator:  "wait, or `purser limits KEY --daily-budget …`",
		},
		{
			Word: "weekly-budget", Group: Policy, Why: "the key's budget of the week would be passed; open payments have taken their part",
			Developer: "repeat the request in the next week (from Monday, UTC); `Retry-After` says when",
			Operator:  "wait, or `purser limits KEY --weekly-budget …`",
		},
		{
			Word: "monthly-budget", Group: Policy, Why: "the key's budget of the month would be passed; open payments have taken their part",
			Developer: "repeat the request in the next month (UTC); `Retry-After` says when",
			Operator:  "wait, or `purser limits KEY --monthly-budget …`",
		},
		{
			Word: "host-per-payment", Group: Policy, Why: "the price is above the limit for one payment to this host",
			Developer: "do not buy from this host at this price",
			Operator:  "`purser limits KEY --host 'HOST=max:…'` raises the limit",
		},
		{
			Word: "host-hourly-budget", Group: Policy, Why: "the hour's budget for this host, or its pattern, would be passed",
			Developer: "repeat the request in the next hour by the clock",
			Operator:  "wait, or `purser limits KEY --host 'HOST=hourly:…'`",
		},
		{
			Word: "host-daily-budget", Group: Policy, Why: "the day's budget for this host, or its pattern, would be passed",
			Developer: "repeat the request on the next day (UTC)",
			Operator:  "wait, or `purser limits KEY --host 'HOST=daily:…'`",
		},
		{
			Word: "host-weekly-budget", Group: Policy, Why: "the week's budget for this host, or its pattern, would be passed",
			Developer: "repeat the request in the next week (from Monday, UTC)",
			Operator:  "wait, or `purser limits KEY --host 'HOST=weekly:…'`",
		},
		{
			Word: "host-monthly-budget", Group: Policy, Why: "the month's budget for this host, or its pattern, would be passed",
			Developer: "repeat the request in the next month (UTC)",
			Operator:  "wait, or `purser limits KEY --host 'HOST=monthly:…'`",
		},
		{
			Word: "task-per-payment", Group: Policy, Why: "the price is above the limit for one payment of this task",
			Developer: "do not buy for this task at this price",
			Operator:  "`purser limits KEY --task 'TASK=max:…'` raises the limit",
		},
		{
			Word: "task-hourly-budget", Group: Policy, Why: "the hour's budget of this task would be passed; `*` is that of all tasks without their own",
			Developer: "repeat the request in the next hour by the clock",
			Operator:  "wait, or `purser limits KEY --task 'TASK=hourly:…'`",
		},
		{
			Word: "task-daily-budget", Group: Policy, Why: "the day's budget of this task would be passed; `*` is that of all tasks without their own",
			Developer: "repeat the request on the next day (UTC)",
			Operator:  "wait, or `purser limits KEY --task 'TASK=daily:…'`",
		},
		{
			Word: "task-weekly-budget", Group: Policy, Why: "the week's budget of this task would be passed; `*` is that of all tasks without their own",
			Developer: "repeat the request in the next week (from Monday, UTC)",
			Operator:  "wait, or `purser limits KEY --task 'TASK=weekly:…'`",
		},
		{
			Word: "task-monthly-budget", Group: Policy, Why: "the month's budget of this task would be passed; `*` is that of all tasks without their own",
			Developer: "repeat the request in the next month (UTC)",
			Operator:  "wait, or `purser limits KEY --task 'TASK=monthly:…'`",
		},
		{
			Word: "task-total", Group: Policy, Why: "the total of this task would be passed, counted from when it was set; open payments have taken their part",
			Developer: "stop buying for this task, or ask the operator for a higher total: no time brings it back",
			Operator:  "`purser limits KEY --task 'TASK=total:…'` raises the total, and `total:…,restart` counts from zero again",
		},
		{
			Word: "task-ended", Group: Policy, Why: "the end that an operator gave this task is past",
			Developer: "end the task: it pays nothing any more",
			Operator:  "nothing, or `purser limits KEY --task 'TASK=until:…'` gives it a later end",
		},
		{
			Word: "max-amount", Group: Policy, Why: "the price is above the `Purser-Max-Amount` of the request itself, or above what a quote has named for it in the last five minutes",
			Developer: "raise `Purser-Max-Amount`, or do not buy",
			Operator:  "nothing: the request itself says how much it may cost",
		},
		{
			Word: "per-minute", Group: Policy, Why: "too many payments began in this minute",
			Developer: "repeat the request in the next minute, and send fewer at once",
			Operator:  "`purser limits KEY --per-minute …` allows more",
		},
		{
			Word: "price-guard", Group: Policy, Why: "the price is several times what this endpoint was last paid",
			Developer: "do not buy until a person has looked at the price",
			Operator:  "look at the seller; `purser limits KEY --price-guard off` lets the price through",
		},
		{
			Word: "hosts", Group: Policy, Why: "the host is denied, or not among those allowed; or it has more than 253 bytes or a port above 65535",
			Developer: "ask the operator to allow the host, or use another one",
			Operator:  "`purser limits KEY --add-allow-host HOST`, if you trust it",
		},
		{
			Word: "payees", Group: Policy, Why: "the payee is denied, or not among those allowed. On REST: the key has rules for hosts and none for payees",
			Developer: "ask the operator to allow the payee",
			Operator:  "`purser limits KEY --allow-payee ADDRESS`, if you trust it, or `--add-allow-payee` where the key has a list of its own",
		},
		{
			Word: "doors", Group: Policy, Why: "the key may not pay through this door. Keys of `purser init` and `exec` pay at the proxy only",
			Developer: "use the proxy, or another key",
			Operator:  "`purser limits KEY --door …` opens the door",
		},
		{
			Word: "unanswered", Group: Policy, Why: "20 payments to this host are open and have brought no answer",
			Developer: "repeat the requests that brought no answer, or wait until their payments expire",
			Operator:  "look at the seller: `purser payments --host HOST --state open`",
		},
		{
			Word: "redirected", Group: Policy, Why: "a paid answer of this site was a redirect less than a minute ago, and this may be where it led",
			Developer: "send an `Idempotency-Key` (or `Purser-Again: new`) to buy this as well, or ask again a minute later",
			Operator:  "look at the seller, whose paid answer was a redirect",
		},
		{
			Word: "validity", Group: Policy, Why: "the seller's requirement is valid for less than 10 seconds",
			Developer: "ask the seller for terms that are valid for longer",
			Operator:  "nothing: the seller has to allow more",
		},
		{
			Word: "amount", Group: Policy, Why: "the price is 0",
			Developer: "tell the seller that its price is 0",
			Operator:  "nothing: there is nothing to pay",
		},
		{
			Word: "own-wallet", Group: Policy, Why: "the payee is the wallet that would pay",
			Developer: "tell the seller that it asks to be paid at the payer's own address",
			Operator:  "nothing, unless you are the seller: set another payee there",
		},
		{
			Word: "challenge-too-large", Group: Policy, Why: "the requirement, or the URL of the resource, has more than 8 KiB",
			Developer: "tell the seller that its terms are too large",
			Operator:  "nothing: the seller has to send less",
		},
		{
			Word: "offer-differs", Group: Policy, Why: "the seller has signed other terms than it asks: a machine on the way may have changed the price or the payee",
			Developer: "ask the seller from another network, and pay nothing here",
			Operator:  "look at the network between purser and the seller",
		},
		{
			Word: "offer-signature", Group: Policy, Why: "the seller's offer is not signed by the address that is paid, nor by one that you have listed",
			Developer: "ask the seller which address signs its offers",
			Operator:  "`purser limits KEY --offer-signer ADDRESS`, if the seller confirms it",
		},
		{
			Word: "offer-expired", Group: Policy, Why: "the offer that the seller has signed has ended",
			Developer: "repeat the request, for a fresh offer",
			Operator:  "look at the clocks of purser and of the seller",
		},
		{
			Word: "offer-unreadable", Group: Policy, Why: "the seller's signed offers are malformed, or more than 32",
			Developer: "tell the seller that its signed offers cannot be read",
			Operator:  "nothing: the seller has to send others",
		},
		{
			Word: "approval-needed", Group: Policy, Why: "a person must approve this payment first; `Purser-Approval` names the approval",
			Developer: "repeat the same request once a person has approved it",
			Operator:  "`purser approvals` lists what waits; approve or deny it",
		},
		{
			Word: "approval-denied", Group: Policy, Why: "a person has denied this payment",
			Developer: "do not buy; after the approval's time, the same request asks anew",
			Operator:  "nothing, or approve the next time",
		},
		{
			Word: "paused", Group: Policy, Why: "the key, or everything, is paused",
			Developer: "wait until the operator resumes payments",
			Operator:  "`purser status`, `purser keys` and `purser audit` say who paused; then `purser resume` or `purser keys resume KEY`",
		},
		{
			Word: "host-paused", Group: Policy, Why: "this host is paused for the key: a person did it, or purser, after several payments in a row that brought nothing (`PURSER_PAUSE_HOST_AFTER`)",
			Developer: "use another seller, or wait until the operator lets the key pay this one again",
			Operator:  "`purser payments --undelivered` and `purser payments dispute ID` show what was paid for nothing; `purser keys resume KEY --host HOST` lets the key pay the host again",
		},

		{
			Word: "no-wallet", Group: Unsent, Codes: codes{pay.CodeNoWallet},
			Why:       "the key has no wallet on the seller's network, which purser could pay on",
			Developer: "ask the operator for a wallet on the seller's network",
			Operator:  "`purser wallets share WALLET --with KEY` or `purser wallets create --key KEY`; `purser wallets --deleted` lists deleted ones",
		},
		{
			Word: "no-wallet-provider", Group: Unsent, Codes: codes{pay.CodeNoAddress},
			Why:       "the wallet has no address: `PURSER_WALLETS` is `none`",
			Developer: "ask the operator for a wallet with an address",
			Operator:  "set `PURSER_WALLETS` to `local`, and make a new wallet",
		},
		{
			Word: "insufficient-funds", Group: Unsent, Why: "the wallet holds too little, less what is in open payments of all keys that draw from it",
			Developer: "repeat the request once the wallet is funded",
			Operator:  "send USDC to the address that `purser wallets` shows",
		},
		{
			Word: "allowance-needed", Group: Unsent, Codes: codes{pay.CodeAllowance},
			Why:       "the seller wants to be paid through Permit2, and the wallet lets Permit2 move too little",
			Developer: "ask the operator to let Permit2 move more",
			Operator:  "`purser wallets approve WALLET`",
		},
		{
			Word: "wallet-code", Group: Unsent, Codes: codes{pay.CodeWalletCode},
			Why:       "the wallet has code on the chain (a delegation by EIP-7702, or a contract). USDC asks that code about signatures, and it refuses those of the wallet's key",
			Developer: "use another key, whose wallet has no code",
			Operator:  "remove the delegation, or `purser wallets create --key KEY`. Find out who set it; purser never does",
		},
		{
			Word: "unsupported", Group: Unsent, Codes: codes{pay.CodeUnsupported},
			Why:       "the seller offers no network, scheme or token that purser pays with: a network of `PURSER_NETWORKS`, `exact` by EIP-3009 or Permit2, `upto` if `PURSER_SCHEMES` has it, a `charge` of MPP by `evm` or `tempo`, USDC. Permit2 and MPP need an RPC of the network. Or it requires a `payment-identifier` whose schema does not allow purser's ids, or takes sign-ins and no payments",
			Developer: "use a seller that offers what purser pays with; the detail names what was offered",
			Operator:  "nothing, unless `PURSER_NETWORKS`, `PURSER_SCHEMES` or `PURSER_RAILS` leaves out what was offered",
		},
		{
			Word: "no-challenge", Group: Unsent, Why: "the 402 has no challenge of x402 or MPP that purser can read",
			Developer: "pay in the way that the seller asks for; the detail names it if it is known",
			Operator:  "nothing; see [a 402 that purser passes](#a-402-that-purser-passes)",
		},
		{
			Word: "challenge-unreadable", Group: Unsent, Codes: codes{pay.CodeHeader},
			Why:       "the challenge is malformed, contradicts itself or is too large",
			Developer: "tell the seller that its challenge cannot be read; the detail says why",
			Operator:  "nothing: the seller has to send another",
		},
		{
			Word: "unasked", Group: Unsent, Why: "the request is one that buys nothing: a browser's CORS preflight, prefetch, prerender, preview, report or ping, its own look for a site's icon, or a HEAD, which brings no content",
			Developer: "send GET, or the request itself, to buy; the detail says which it was",
			Operator:  "nothing, unless you are the seller, which has to answer preflights without a payment",
		},
		{
			Word: "plain-http", Group: Unsent, Why: "the URL is http to a public host, where any machine on the way could forge the price",
			Developer: "use https",
			Operator:  "list the host with `allow_http`, if no other machine is on the way",
		},
		{
			Word: "verification-refused", Group: Unsent, Why: "your facilitator refused the payload",
			Developer: "do not repeat the request before the operator has looked",
			Operator:  "`purser payments --state refused`, then `purser payments show ID`, have the facilitator's words",
		},
		{
			Word: "no-facilitator", Group: Unsent, Codes: codes{pay.CodeNoFacilitator}, Why: "purser is to settle the payment, and has no facilitator: none has refused anything",
			Developer: "pay with `\"settlement\":\"seller\"`, which needs none",
			Operator:  "set `PURSER_FACILITATOR_URL`, or `PURSER_SETTLEMENT=seller` for all",
		},
		{
			Word: "seller-settles", Group: Unsent, Codes: codes{pay.CodeSellerSettles}, Why: "the seller settles payments itself: it says that the authorization which purser settled is used already",
			Developer: "pay with `\"settlement\":\"seller\"`; the detail names the earlier payment",
			Operator:  "nothing, or `PURSER_SETTLEMENT=seller` for all; the earlier payment has moved its money",
		},
		{
			Word: "facilitator-silent", Group: Unsent, Codes: codes{pay.CodeSilent}, Why: "your facilitator did not answer, or gave no verdict: it has refused nothing",
			Developer: "send the same call again a little later: it goes on with the same payment, if there is one",
			Operator:  "`purser status` says since when the facilitator is down; wait, set another `PURSER_FACILITATOR_URL`, or let sellers settle",
		},
		{
			Word: "not-signed", Group: Unsent, Why: "the wallet could not sign",
			Developer: "repeat the request a little later",
			Operator:  "look into the log for `payment not signed`; see [the signer](#the-signer)",
		},
		{
			Word: "quota", Group: Unsent, Codes: codes{pay.CodeQuota},
			Why:       "the plan's payments of this month are used up",
			Developer: "wait for the next month (UTC)",
			Operator:  "`purser organizations`; raise the plan, or set `PURSER_PLANS=off`",
		},
		{
			Word: "overloaded", Group: Unsent, Codes: codes{pay.CodeFailures, pay.CodeQuestions},
			Why:       "too many payments of the key ended refused or void (100 a minute, 3,000 a day), or its calls had the RPC asked too often",
			Developer: "wait for `Retry-After`, and find out why the payments fail",
			Operator:  "`purser payments --state refused` and `--state void` list them",
		},
		{
			Word: "idempotency-key-reused", Group: Unsent, Codes: codes{pay.CodeReused},
			Why:       "the `Idempotency-Key` stands for another request, also while that one is refused or void and its authorization is still valid",
			Developer: "use one `Idempotency-Key` for one request",
			Operator:  "nothing: the program has to change",
		},
		{
			Word: "challenge-taken", Group: Unsent, Codes: codes{pay.CodeChallenge},
			Why:       "the challenge has chosen what marks the payment, and another payment has it",
			Developer: "ask the seller again, for a fresh challenge",
			Operator:  "nothing",
		},
		{
			Word: "network-unready", Group: Unsent, Codes: codes{pay.CodeUnready},
			Why:       "purser makes payments on this network (Tempo) with the help of its RPC, and that does not answer; or gas is too dear at the moment, the challenge ends too soon, or the chain would refuse the payment",
			Developer: "repeat the request a little later; the detail says why",
			Operator:  "`purser status` says since when the RPC is down; see [its alarm](operating.md#purserrpcdown)",
		},
		{
			Word: "authorization-in-use", Group: Unsent,
			Why:       "the seller (MPP) wants its payment in the header `Authorization`, which the request needs for itself",
			Developer: "leave the request's own `Authorization` out if the seller takes it without one, or tell the seller to offer `header=\"Payment-Authorization\"`",
			Operator:  "nothing: the seller has to name another header, or to offer x402",
		},
		{
			Word: "idempotency-key-invalid", Group: Unsent, Why: "the `Idempotency-Key` is not one value of 1 to 255 visible ASCII characters",
			Developer: "send a proper `Idempotency-Key`, or none",
			Operator:  "nothing: the program has to change",
		},
		{
			Word: "max-amount-invalid", Group: Unsent, Why: "`Purser-Max-Amount` is not one amount of USDC such as 0.05",
			Developer: "send a proper `Purser-Max-Amount`, or none",
			Operator:  "nothing: the program has to change",
		},
		{
			Word: "dry-run", Group: Unsent, Why: "the request has `Purser-Dry-Run`, and would be paid for; `quote` in the JSON says what, and `offers` why not by the others",
			Developer: "send the request without `Purser-Dry-Run` to buy",
			Operator:  "nothing",
		},
		{
			Word: "body-too-large", Group: Unsent, Why: "the request body is above `max_replay` and `max_spool`, so it cannot be sent again with the payment",
			Developer: "send a smaller body",
			Operator:  "raise `max_spool`",
		},
		{
			Word: "body-incomplete", Group: Unsent, Why: "the client's body could not be read to its end",
			Developer: "repeat the request",
			Operator:  "nothing, unless something in front of purser cuts bodies",
		},
		{
			Word: "caller-gone", Group: Unsent, Codes: codes{pay.CodeCallerGone},
			Why:       "the client left or half-closed its connection (it ended its sending side) before anything was sent. purser cannot tell these apart, and the repeat of a client that has left would be paid again",
			Developer: "keep the connection open until the answer has come, and repeat the request",
			Operator:  "nothing, unless something in front of purser closes connections",
		},
		{
			Word: "caller-unknown", Group: Unsent, Why: "purser cannot see whether the client is still there: something in front of the door detaches requests, or hides their connections",
			Developer: "ask the operator to take away what stands between you and purser",
			Operator:  "take out of the route what detaches requests, or hides their connections",
		},
		{
			Word: "seller-failing", Group: Unsent, Why: "five payments of this key to the host in a row brought an error, another 402, an empty or broken answer, or none",
			Developer: "ask again in 30 s to 10 min",
			Operator:  "`purser payments --undelivered` shows what was paid for nothing; purser pays there again after 30 s to 10 min, unless you forbid the host with `purser limits KEY --add-deny-host HOST`",
		},
		{
			Word: "key-revoked", Group: Unsent, Codes: codes{pay.CodeKeyNotFound},
			Why:       "the key that pays was revoked",
			Developer: "ask the operator for another key",
			Operator:  "`purser keys`; give the door another key",
		},

		{
			Word: "cross-site", Group: Sidecar, Why: "a page of another site made the request in a browser",
			Developer: "call from a program: pages of other sites pay for nothing",
			Operator:  "nothing",
		},
		{
			Word: "host", Group: Sidecar, Why: "the request's Host is not a name of this sidecar",
			Developer: "use the sidecar's address, or `localhost`",
			Operator:  "set `PURSER_PUBLIC_URL`, or put the name into the site's address",
		},
		{
			Word: "early-data", Group: Sidecar, Why: "the request came before the TLS handshake was over, so another machine may have sent it again",
			Developer: "repeat the request",
			Operator:  "nothing",
		},

		{
			Word: "store-unavailable", Group: Unable, Codes: codes{pay.CodeUnavailable},
			Why:       "the database cannot be written",
			Developer: "repeat the same request a little later",
			Operator:  "`purser status`, disk space, the log. purser resumes by itself",
		},
		{
			Word: "reconciling", Group: Unable, Codes: codes{pay.CodeReconciling},
			Why:       "a backup was restored, the folder was copied or moved, or the database has lost commits, and the chain has not told yet what was paid",
			Developer: "repeat the same request later",
			Operator:  "`purser reconcile --wait`; see [backups](operating.md#backups) and [copies](moving.md#a-folder-that-was-copied)",
		},
		{
			Word: "clock", Group: Unable, Codes: codes{pay.CodeClock},
			Why:       "purser's clock is more than 2 minutes from that of RPC or facilitator, or the RPC's latest block is that far ahead; or it is late by as much as the seller lets the payment be valid",
			Developer: "repeat the same request later",
			Operator:  "`purser status`; set the clock by NTP. See [the clock](#the-clock)",
		},
		{
			Word: "overloaded", Group: Unable, Why: "too much is under way, too much of request bodies is kept, or the key asks for too many dry runs (300 a minute)",
			Developer: "repeat the same request after `Retry-After`, and send fewer at once",
			Operator:  "see [under load](operating.md#under-load)",
		},
		{
			Word: "spool-failed", Group: Unable, Why: "the file for a request body cannot be written",
			Developer: "repeat the request later",
			Operator:  "look at `spool_dir`, and the disk space there",
		},
		{
			Word: "internal", Group: Unable, Why: "a fault of purser's",
			Developer: "repeat the same request; if it fails again, tell the operator",
			Operator:  "look into the log; please report it",
		},

		{
			Word: "paid-not-delivered", Group: Sent, Codes: codes{pay.CodeSpent},
			Why:       "the money moved, and the seller answers 402 all the same",
			Developer: "the next request is a new purchase; with an `Idempotency-Key`, use another one",
			Operator:  "tell the seller, with the transaction of `Purser-Transaction`",
		},
		{
			Word: "paid-before", Group: Sent, Why: "the purchase under this `Idempotency-Key` was paid and delivered before; nothing was paid now, and the seller does not give its answer again",
			Developer: "use the first answer. To buy it once more: another `Idempotency-Key`; without one, `Purser-Again: new`",
			Operator:  "nothing: it was paid and delivered before",
		},
		{
			Word: "payment-open", Group: Sent, Codes: codes{pay.CodeOpen},
			Why:       "a payment for this request has left, and its outcome is not known yet",
			Developer: "repeat the same request; it gets the same payment",
			Operator:  "`purser payments show ID`; it ends by itself",
		},
		{
			Word: "payment-void", Group: Sent, Why: "the payment was not made, and cannot be any more",
			Developer: "repeat the request",
			Operator:  "nothing: no money has moved",
		},
	}
}
