package pay

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/x402"
)

// This file holds the whole table of evidence of docs/design/payments.md, in its order. Its functions
// take what was seen and return what it means. They ask nothing and change nothing. The words of
// facilitators and sellers are in reasons.go.
//
// A timeout, a reset, a 5xx or a 402 after the payload left proves nothing.

// Verdict says what the evidence means for a payment. Its value is the word that is stored and
// shown.
type Verdict string

// The verdicts. Unclear changes no state.
const (
	Unclear               Verdict = ""
	VerdictSettled        Verdict = "settled"        // the money moved
	VerdictVoid           Verdict = "void"           // it did not, and cannot; or nothing was sent
	VerdictRefused        Verdict = "refused"        // our facilitator refused the payload; the payment stays open
	VerdictRefusedExpired Verdict = "refusedExpired" // a doubted payment expired, and no RPC watches it
	VerdictUnresolved     Verdict = "unresolved"     // an open payment expired, and no evidence is to be had
	VerdictConfirmed      Verdict = "confirmed"      // the chain shows the use of a settled payment for good
	VerdictDisputed       Verdict = "disputed"       // the chain shows for good that a settled payment moved nothing
)

// chainWord holds the chain's word on one authorization.
type chainWord struct {
	// watched reports whether an RPC serves the network. Without one the chain says nothing.
	watched bool
	// trace is nil while the RPC gives no answer.
	trace *Trace
}

// used reports whether the chain shows the transfer.
func (c chainWord) used() bool { return c.trace != nil && c.trace.Used }

// canceled reports whether the chain shows for good that the authorization was canceled.
func (c chainWord) canceled() bool { return c.trace != nil && c.trace.Canceled && c.trace.SafeLogs }

const reasonCanceled = "authorization canceled on chain"

// claim holds what a facilitator's or seller's answer to a payload says.
type claim struct {
	kind claimKind
	// alone is the outcome unless the chain adds something.
	alone Outcome
	// seen is the note if the chain shows the use.
	seen string
}

type claimKind int

const (
	// claimFinal needs no word of the chain.
	claimFinal claimKind = iota
	// claimUsed says that the authorization is used already.
	claimUsed
	// claimHinted suggests so: some sellers refuse a payload that settled without naming it.
	claimHinted
	// claimRefused says that our facilitator had the payload to send, and did not send it.
	claimRefused
	// claimCharged says that our facilitator has sent it. Only the chain tells how much it moved.
	claimCharged
	// claimBelated says that a payment has settled which is refused or void. With an RPC only the chain's
	// word reopens it.
	claimBelated
)

// asksChain reports whether the chain's word can change what the claim means.
func (c claim) asksChain() bool { return c.kind != claimFinal }

// outcome weighs the claim with the chain's word.
//
//	claim     used on chain   canceled at a safe block   neither yet   no answer   no RPC
//	used      settled         void                       unclear       unclear     settled
//	hinted    settled         void                       noted         noted       noted
//	belated   settled         noted                      noted         noted       settled
//	refused   settled         refused                    refused       refused     refused
//	charged   settled         settled                    settled       settled     settled
//
// A refusal may be wrong, because the first of the facilitator's own tries got through after all.
// It may be premature, because a node sends later what it has kept. So the chain is asked at once.
// Without an RPC, "used" settles no payment that an operator cancels: see [Outcome.Hearsay].
func (c claim) outcome(chain chainWord) Outcome {
	o := c.alone
	switch {
	case c.kind == claimFinal:
	case chain.used():
		return Outcome{
			Verdict: VerdictSettled, Transaction: chain.trace.Transaction, Moved: chain.trace.Moved, Evident: true, Detail: o.Detail, Note: c.seen,
		}
	case c.kind == claimRefused, c.kind == claimCharged:
	case c.kind == claimBelated && chain.watched:
		return Outcome{Note: c.seen}
	case c.kind == claimBelated:
	case chain.canceled():
		o.Verdict, o.Reason, o.Note = VerdictVoid, reasonCanceled, c.seen
	case c.kind == claimUsed && !chain.watched:
		o.Verdict, o.Hearsay = VerdictSettled, true
	}
	return o
}

// settleClaim reads an answer of our facilitator's /settle. fresh is that of [freshPayload].
func settleClaim(ans SettleAnswer, fresh bool) claim {
	named := ans.Transaction != ""
	switch {
	case ans.Success && ans.Reason == "":
		o := Outcome{Verdict: VerdictSettled}
		if x402.ValidTransaction(ans.Transaction) { // a facilitator has the rails of x402 only
			o.Transaction = strings.ToLower(ans.Transaction)
		} else {
			o.Note = "facilitator named no valid transaction: " + words.Truncate(ans.Transaction, 80)
		}
		return claim{alone: o}
	case !ans.Success && UsedReason(ans.Reason):
		return usedClaim(ans.Reason, ans.Raw)
	case !ans.Success && !named && fresh && PreBroadcastReason(ans.Reason):
		return claim{
			kind:  claimRefused,
			alone: Outcome{Verdict: VerdictRefused, Stage: StageSettle, Reason: ans.Reason, Detail: ans.Raw},
			seen:  "refused by the facilitator, which had sent it: " + ans.Reason,
		}
	}
	note := "settlement unclear: " + ans.Reason
	if named {
		note += ", transaction " + words.Truncate(ans.Transaction, 80)
	}
	return claim{alone: Outcome{Reason: ans.Reason, Detail: ans.Raw, Note: note}}
}

// of returns the claim about a payment. Of one that may move less than its terms say, the chain is asked
// how much it moved.
func (c claim) of(row *Payment) claim {
	if row.metered() && c.alone.Verdict == VerdictSettled {
		c.kind, c.seen = claimCharged, c.alone.Note
	}
	return c
}

// verifyClaim reads an answer of our facilitator's /verify that is not yes. A refusal there needs
// no word of the chain: /verify sends nothing.
func verifyClaim(ans VerifyAnswer, fresh bool) claim {
	switch {
	case UsedReason(ans.Reason):
		return usedClaim(ans.Reason, ans.Raw)
	case !fresh && mentions(ans.Reason, spentWords):
		c := noted("verification unclear: " + ans.Reason)
		c.kind, c.seen, c.alone.Reason, c.alone.Detail = claimHinted, usedNote(ans.Reason), ans.Reason, ans.Raw
		return c
	case !fresh || PendingReason(ans.Reason):
		return claim{alone: Outcome{Reason: ans.Reason, Note: "verification unclear: " + ans.Reason, Detail: ans.Raw}}
	}
	return claim{alone: Outcome{Verdict: VerdictRefused, Stage: StageVerify, Reason: ans.Reason, Detail: ans.Raw}}
}

// receiptClaim reads the receipt of a seller.
func receiptClaim(row *Payment, r x402.Receipt) claim {
	switch why := misfit(row, r); {
	case !r.Success && row.State == Open && UsedReason(r.ErrorReason):
		return usedClaim(r.ErrorReason, nil)
	case !r.Success:
		return noted("receipt says failure: " + words.Of(r.ErrorReason))
	case row.metered() && why == "":
		return noted(uptoNote(r))
	case why != "":
		return noted("receipt does not fit: " + why)
	}
	transaction, _ := row.transaction(r.Transaction)
	c := claim{alone: Outcome{Verdict: VerdictSettled, Transaction: transaction, ClaimedTransaction: true}}
	if row.State == Void || row.Refused {
		c.kind, c.seen = claimBelated, "receipt says that it settled, in "+c.alone.Transaction
	}
	return c
}

// metered reports whether only the chain tells how much the payment moves: the seller chooses that, or the wallet
// pays for gas beside the price.
func (p *Payment) metered() bool {
	return p.Authorization.Rail == x402.RailUpto || p.Authorization.Value.Cmp(p.Terms.Amount) > 0
}

// uptoNote tells of a receipt for a payment that is metered. It is no evidence, because a seller could name less than
// it takes: the budgets get nothing back before the chain tells.
func uptoNote(r x402.Receipt) string {
	if r.Amount == nil {
		return "receipt does not say how much was charged"
	}
	return "receipt says that " + r.Amount.String() + " was charged"
}

// misfit says why a successful receipt is no evidence for a payment, or "". That no other payment
// has its transaction is the store's to check: see [Outcome.ClaimedTransaction].
func misfit(row *Payment, r x402.Receipt) string {
	switch {
	case r.Network == "" && row.Terms.Scheme == x402.SchemeCharge: // MPP's receipts name none
	case !x402.SameNetwork(r.Network, row.Terms.Network):
		return "network " + words.Truncate(r.Network, 40)
	case r.Payer != "" && !strings.EqualFold(r.Payer, row.Authorization.From.String()):
		return "payer " + words.Truncate(r.Payer, 60)
	case r.Amount != nil && r.Amount.Cmp(row.Terms.Amount) != 0 && (!row.metered() || r.Amount.Cmp(row.Terms.Amount) > 0):
		return "amount " + r.Amount.String()
	case row.metered() && r.Amount != nil && r.Amount.IsZero() && r.Transaction == "":
		return "" // nothing was charged
	}
	if _, valid := row.transaction(r.Transaction); !valid {
		return "transaction " + words.Truncate(r.Transaction, 80)
	}
	return ""
}

// maxTransaction bounds the name of a transaction on a rail that package x402 does not know, in bytes.
const maxTransaction = 128

// transaction reads the name of a transaction as sellers and operators write it. Names on the rails of x402 are
// hashes. Other rails have words of their own.
func (p *Payment) transaction(text string) (name string, valid bool) {
	if !p.Authorization.Rail.Other() {
		return strings.ToLower(text), x402.ValidTransaction(text)
	}
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	return text, text != "" && len(text) <= maxTransaction && !strings.ContainsFunc(text, odd)
}

// refusalClaim reads the reason of a seller's 402 to the payload. repeated reports whether the
// payload may have left on an earlier attempt.
func refusalClaim(row *Payment, reason string, repeated bool) claim {
	c := noted(noteRefused + words.Of(reason))
	if row.Delivered() { // it may well be right about a payload that it has had before
		c = noted("seller answered a repeat with 402: " + words.Of(reason))
	}
	switch {
	case row.State != Open:
	case UsedReason(reason):
		return usedClaim(reason, nil)
	case repeated, row.Bound: // sellers that rotate their challenges may have settled it
		c.kind, c.seen = claimHinted, usedNote(reason)
	}
	return c
}

func usedClaim(reason string, detail json.RawMessage) claim {
	note := usedNote(reason)
	return claim{kind: claimUsed, alone: Outcome{Note: note, Detail: detail}, seen: note}
}

func usedNote(reason string) string { return noteUsed + words.Of(reason) }

func noted(note string) claim { return claim{alone: Outcome{Note: note}} }

// freshPayload reports whether a refusal of the payload can be taken for one. A payload that
// may have moved money on an earlier attempt can be refused because it did: the balance is empty,
// or its window is over. Such a payment stays open until the evidence is in.
func freshPayload(how How, revived Verdict, refusedAt Stage) bool {
	return how == Created || revived == VerdictVoid || revived == VerdictRefused && refusedAt != StageSettle
}

// unsentOutcome is the outcome of an attempt that sent nothing. shown reports whether a
// facilitator has seen the payload.
//
// A payment that was signed is void by our word only, so it is doubted: a mistake about what has
// left, here or at a door, must neither free its money nor allow a second authorization.
func unsentOutcome(how How, revived Verdict, shown, signed bool, reason string) Outcome {
	o := Outcome{Reason: reason}
	switch {
	case shown:
	case how == Created || revived == VerdictVoid:
		o.Verdict, o.Doubted = VerdictVoid, signed
	case revived == VerdictRefused:
		o.Verdict = VerdictRefused
	}
	return o
}

// chainOutcome reads a trace that was admitted. Only what is at or before a safe block, and past
// the validity, can prove that money did not move.
//
//	on the chain                                open, void   settled
//	used                                        settled      –
//	used at a safe block, past the validity     settled      confirmed
//	used at a safe block, metered               settled      confirmed
//	canceled at a safe block                    void         disputed
//	unused at a safe block past the validity    void         disputed
//
// Each of these ends the hold on the wallet, and so do a use that is not safe yet, and a safe block past
// the validity that tells nothing else: after it no transfer can come.
func chainOutcome(row *Payment, t Trace) Outcome {
	over := row.over(t)
	unused := over && !t.SafeUsed && !t.Canceled
	canceled := t.Canceled && t.SafeLogs
	settled := row.State == Settled
	o := Outcome{Evident: t.Used || over || canceled}
	switch {
	case t.Used && !settled:
		o.Verdict, o.Transaction, o.Moved = VerdictSettled, t.Transaction, t.Moved
	case t.Used && t.SafeLogs && settled && (over || row.metered()):
		o.Verdict, o.Transaction, o.Moved = VerdictConfirmed, t.Transaction, t.Moved
	case canceled && settled:
		o.Verdict, o.Reason = VerdictDisputed, "authorization was canceled on chain"
	case canceled:
		o.Verdict, o.Reason = VerdictVoid, reasonCanceled
	case unused && settled:
		o.Verdict, o.Reason = VerdictDisputed, "authorization expired unused on chain"
	case unused:
		o.Verdict, o.Reason = VerdictVoid, "expired unused on chain"
	}
	return o
}

// evidenceWait is the time after its validity for which an open payment waits for an RPC that does
// not answer. After that it is unresolved. A finalized block is about 20 minutes old.
const evidenceWait = 30 * time.Minute

// clockWord holds what the other clocks say about ours.
type clockWord struct {
	agrees bool // a source agrees, or there is none to compare with
	wrong  bool // a source stops payments
}

// expiryOutcome is the outcome of a look to which the chain added nothing. Our own clock never
// voids a payment that was sent.
//
// Without an RPC nothing more will be known of a doubted payment. It is taken for unused by a
// clock that can be right. Where no source tells its time, an earlier look must have put it off.
func expiryOutcome(row *Payment, watched bool, now time.Time, clock clockWord) Outcome {
	told := row.ValidBefore()
	if watched {
		told = told.Add(evidenceWait)
	}
	switch putOff := !row.Check.Before(row.doubtDue().Add(maxBackoff)); {
	case row.Doubted:
		if !watched && !now.Before(row.doubtDue()) && (clock.agrees || !clock.wrong && putOff) {
			return Outcome{Verdict: VerdictRefusedExpired}
		}
	case row.State == Open && !row.Refused && !row.Unresolved && !now.Before(told):
		return Outcome{Verdict: VerdictUnresolved}
	}
	return Outcome{}
}

// doubtDue returns when the doubt about a payment can end without an RPC.
func (p *Payment) doubtDue() time.Time { return p.ValidBefore().Add(RepeatGrace) }

// unproven reports whether the chain may still say something new about the payment.
func (p *Payment) unproven() bool {
	switch p.State {
	case Open:
		return true
	case Settled:
		return !p.Confirmed && !p.Disputed
	case Void:
		return p.Doubted || p.Resolution != nil && !p.Resolution.Proven
	}
	return false
}

// Which words of an RPC count.

// Reasons why the word of an RPC counts for nothing, see [Observer.Ignored].
const (
	ignoredForeign   = "foreign-chain" // it answers for another chain
	ignoredFork      = "fork"          // it has another block in the place of the kept one
	ignoredNoBlock   = "no-kept-block" // it does not have the kept block
	ignoredAhead     = "block-ahead"   // its blocks are from the future
	ignoredStale     = "stale"         // its latest block is old
	ignoredSilent    = "second-silent" // the second RPC does not answer
	ignoredDisagrees = "disagree"      // the two RPCs contradict each other
)

// IgnoredReasons lists all reasons of [Observer.Ignored].
func IgnoredReasons() []string {
	return []string{ignoredForeign, ignoredFork, ignoredNoBlock, ignoredAhead, ignoredStale, ignoredSilent, ignoredDisagrees}
}

var (
	errFork    = errors.New("the RPC has another block than the one that this store has seen as safe")
	errNoBlock = errors.New("the RPC does not have the block that this store has seen as safe")
	errAhead   = errors.New("the RPC's blocks are ahead of our clock")
	errStale   = errors.New("the RPC's latest block is old")
)

// objection says why an RPC's word counts for less than it says.
type objection struct {
	reason string // one of IgnoredReasons; "": the word counts
	err    error
}

// foreignError says that the RPC is on another chain than the store's payments.
type foreignError struct {
	setting string // names the RPC for operators
	differs string
}

func (e *foreignError) Error() string {
	return fmt.Sprintf("the RPC (%s) is on another chain than this store's payments: %s", e.setting, e.differs)
}

// foreignChain compares an RPC's identity with the pinned chain id and the genesis hash that is
// recorded with the store: *foreignError.
func foreignChain(id ChainIdentity, chainID uint64, world, setting string) error {
	switch {
	case id.Genesis == "":
		return errors.New("the RPC did not name its genesis block")
	case world != id.Genesis && world != SandboxWorld:
		return &foreignError{setting, fmt.Sprintf("genesis %s instead of %s", id.Genesis, world)}
	case id.ChainID != chainID:
		return &foreignError{setting, fmt.Sprintf("chain id %d instead of %d", id.ChainID, chainID)}
	}
	return nil
}

// admitted returns as much of a trace as counts. The word of a fork counts for nothing. An RPC
// whose time or whose kept block is in doubt has no word on safe blocks. sent and received are
// our clock's times of the question and of the answer.
func admitted(t Trace, kept *ChainBlock, sent, received time.Time) (Trace, objection) {
	latest := t.newest(received)
	switch {
	case kept != nil && t.KeptHash != "" && t.KeptHash != kept.Hash:
		return Trace{}, objection{ignoredFork, fmt.Errorf("%w: block %d is %s instead of %s", errFork, kept.Number, t.KeptHash, kept.Hash)}
	case t.SafeTime.After(received.Add(clockStop)), latest.After(received.Add(clockStop)):
		return t.withoutSafe(), objection{ignoredAhead, fmt.Errorf("%w: by %s", errAhead, latest.Sub(received).Round(time.Second))}
	case !t.Latest.IsZero() && sent.Sub(t.Latest) > clockStop:
		return t.withoutSafe(), objection{ignoredStale, fmt.Errorf("%w: %s", errStale, sent.Sub(t.Latest).Round(time.Second))}
	case kept != nil && t.KeptHash == "":
		return t.withoutSafe(), objection{ignoredNoBlock, fmt.Errorf("%w: block %d", errNoBlock, kept.Number)}
	}
	return t, objection{}
}

// newest is the time of the newest block that the RPC names.
func (t Trace) newest(received time.Time) time.Time {
	if t.Latest.Before(t.SafeTime) && t.SafeTime.After(received) {
		return t.SafeTime
	}
	return t.Latest
}

// withoutSafe takes out of a trace what could prove that money did not move, or that it moved for
// good.
func (t Trace) withoutSafe() Trace {
	t.SafeUsed, t.SafeTime, t.SafeNumber, t.SafeLogs = false, time.Time{}, 0, false
	return t
}

// over reports whether the safe block of a trace is past the payment's validity: past its height, if its rail
// counts blocks, or else past its time.
func (p *Payment) over(t Trace) bool {
	if h := p.Authorization.Height; h != 0 {
		return t.SafeNumber >= h
	}
	return !t.SafeTime.Before(p.ValidBefore())
}

// needsSecond reports whether a second RPC must agree with what a trace proves: that no money
// moved.
func needsSecond(row *Payment, t Trace) bool {
	v := chainOutcome(row, t).Verdict
	return v == VerdictVoid || v == VerdictDisputed
}

// agreed returns what counts of a trace that needs a second RPC's word, by that word. They
// contradict each other if the second one shows the use.
func agreed(row *Payment, first, second Trace) (_ Trace, contradicted bool) {
	switch {
	case second.Used:
		return first.withoutSafe(), true
	case chainOutcome(row, second).Verdict == chainOutcome(row, first).Verdict:
		return first, false
	}
	return first.withoutSafe(), false
}
