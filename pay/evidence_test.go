package pay

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// TestEvidence walks the table of docs/design/payments.md, row by row.
func TestEvidence(t *testing.T) {
	t.Parallel()
	const (
		used  = "invalid_exact_evm_nonce_already_used"
		early = "insufficient_funds"
	)
	tx := "0x" + strings.Repeat("ab", 32)
	valid := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	payment := func(state State) *Payment {
		return &Payment{
			State: state, Terms: Terms{Network: "base", Amount: money.New(5)},
			Authorization: x402.Authorization{From: x402.EVMAddress([20]byte{0xf0}), ValidBefore: uint64(valid.Unix())},
		}
	}
	open, settled := payment(Open), payment(Settled)
	unwatched, silent := chainWord{}, chainWord{watched: true}
	told := func(trace Trace) chainWord { return chainWord{watched: true, trace: &trace} }
	moved, neither := told(Trace{Used: true, Transaction: tx}), told(Trace{})
	canceled := told(Trace{Canceled: true, SafeLogs: true})
	receipt := x402.Receipt{Success: true, Network: "eip155:8453", Transaction: strings.ToUpper(tx[2:])}
	receipt.Transaction = "0x" + receipt.Transaction
	raw := json.RawMessage(`{"success":false}`)
	refused := Outcome{Verdict: VerdictRefused, Stage: StageSettle, Reason: early, Detail: raw}
	no := SettleAnswer{Reason: early, Raw: raw}
	usedNote := "authorization said to be used: " + used
	past := Trace{SafeTime: valid}

	for _, row := range []struct {
		seen string
		got  Outcome
		want Outcome
	}{
		{"/settle succeeds", settleClaim(SettleAnswer{Success: true, Transaction: receipt.Transaction}, false).outcome(silent), Outcome{Verdict: VerdictSettled, Transaction: tx}},
		{"/settle succeeds without a transaction", settleClaim(SettleAnswer{Success: true, Transaction: "0x1"}, true).outcome(silent), Outcome{Verdict: VerdictSettled, Note: "facilitator named no valid transaction: 0x1"}},
		{"a receipt that fits", receiptClaim(open, receipt).outcome(silent), Outcome{Verdict: VerdictSettled, Transaction: tx, ClaimedTransaction: true}},
		{"a receipt of a void payment, no RPC", receiptClaim(payment(Void), receipt).outcome(unwatched), Outcome{Verdict: VerdictSettled, Transaction: tx, ClaimedTransaction: true}},
		{"a receipt of a void payment, neither yet", receiptClaim(payment(Void), receipt).outcome(neither), Outcome{Note: "receipt says that it settled, in " + tx}},
		{"a receipt of a void payment, the RPC is silent", receiptClaim(payment(Void), receipt).outcome(silent), Outcome{Note: "receipt says that it settled, in " + tx}},
		{"a receipt of a void payment, used", receiptClaim(payment(Void), receipt).outcome(moved), Outcome{Verdict: VerdictSettled, Transaction: tx, Evident: true, Note: "receipt says that it settled, in " + tx}},
		{"the use on the chain", chainOutcome(open, Trace{Used: true, Transaction: tx}), Outcome{Verdict: VerdictSettled, Transaction: tx, Evident: true}},
		{"the use of a void payment", chainOutcome(payment(Void), Trace{Used: true, Transaction: tx}), Outcome{Verdict: VerdictSettled, Transaction: tx, Evident: true}},

		{"/settle: used, and the chain shows it", settleClaim(SettleAnswer{Reason: used, Raw: raw}, true).outcome(moved), Outcome{Verdict: VerdictSettled, Transaction: tx, Evident: true, Detail: raw, Note: usedNote}},
		{"/settle: used, canceled", settleClaim(SettleAnswer{Reason: used, Raw: raw}, true).outcome(canceled), Outcome{Verdict: VerdictVoid, Reason: "authorization canceled on chain", Detail: raw, Note: usedNote}},
		{"/settle: used, canceled and not yet safe", settleClaim(SettleAnswer{Reason: used}, true).outcome(told(Trace{Canceled: true})), Outcome{Note: usedNote}},
		{"/settle: used, neither yet", settleClaim(SettleAnswer{Reason: used}, true).outcome(neither), Outcome{Note: usedNote}},
		{"/settle: used, the RPC is silent", settleClaim(SettleAnswer{Reason: used}, true).outcome(silent), Outcome{Note: usedNote}},
		{"/settle: used, no RPC", settleClaim(SettleAnswer{Reason: used}, true).outcome(unwatched), Outcome{Verdict: VerdictSettled, Hearsay: true, Note: usedNote}},
		{"/verify: used, no RPC", verifyClaim(VerifyAnswer{Reason: used}, true).outcome(unwatched), Outcome{Verdict: VerdictSettled, Hearsay: true, Note: usedNote}},
		{"a 402: used, no RPC", refusalClaim(open, used, false).outcome(unwatched), Outcome{Verdict: VerdictSettled, Hearsay: true, Note: usedNote}},
		{"a receipt: used, no RPC", receiptClaim(open, x402.Receipt{ErrorReason: used}).outcome(unwatched), Outcome{Verdict: VerdictSettled, Hearsay: true, Note: usedNote}},
		{"a receipt: used, of a settled payment", receiptClaim(settled, x402.Receipt{ErrorReason: used}).outcome(unwatched), Outcome{Note: "receipt says failure: " + used}},

		{"/settle: pending", settleClaim(SettleAnswer{Reason: "settlement_pending", Raw: raw}, true).outcome(moved), Outcome{Reason: "settlement_pending", Detail: raw, Note: "settlement unclear: settlement_pending"}},
		{"/settle: an unknown reason", settleClaim(SettleAnswer{Reason: "new"}, true).outcome(moved), Outcome{Reason: "new", Note: "settlement unclear: new"}},
		{"/settle: refused, with a transaction", settleClaim(SettleAnswer{Reason: early, Transaction: "0x2"}, true).outcome(neither), Outcome{Reason: early, Note: "settlement unclear: " + early + ", transaction 0x2"}},
		{"/settle: success with a reason", settleClaim(SettleAnswer{Success: true, Reason: "but"}, true).outcome(neither), Outcome{Reason: "but", Note: "settlement unclear: but"}},
		{"/verify: pending", verifyClaim(VerifyAnswer{Reason: "settlement_pending"}, true).outcome(neither), Outcome{Reason: "settlement_pending", Note: "verification unclear: settlement_pending"}},

		{"/verify refuses", verifyClaim(VerifyAnswer{Reason: "new", Raw: raw}, true).outcome(silent), Outcome{Verdict: VerdictRefused, Stage: StageVerify, Reason: "new", Detail: raw}},
		{"/settle refuses", settleClaim(no, true).outcome(neither), refused},
		{"/settle refuses, no RPC", settleClaim(no, true).outcome(unwatched), refused},
		{"/settle refuses, the RPC is silent", settleClaim(no, true).outcome(silent), refused},
		{"/settle refuses, canceled", settleClaim(no, true).outcome(canceled), refused},
		{"/settle refuses what it has sent", settleClaim(no, true).outcome(moved), Outcome{Verdict: VerdictSettled, Transaction: tx, Evident: true, Detail: raw, Note: "refused by the facilitator, which had sent it: " + early}},
		{"/verify refuses what an earlier attempt may have sent", verifyClaim(VerifyAnswer{Reason: "new"}, false).outcome(silent), Outcome{Reason: "new", Note: "verification unclear: new"}},
		{"/settle refuses what an earlier attempt may have sent", settleClaim(no, false).outcome(silent), Outcome{Reason: early, Detail: raw, Note: "settlement unclear: " + early}},

		{"nothing was signed or sent", unsentOutcome(Created, "", false, false, "why"), Outcome{Verdict: VerdictVoid, Reason: "why"}},
		{"nothing was sent", unsentOutcome(Created, "", false, true, "why"), Outcome{Verdict: VerdictVoid, Doubted: true, Reason: "why"}},
		{"nothing was sent of a revived void payment", unsentOutcome(Driven, VerdictVoid, false, true, "why"), Outcome{Verdict: VerdictVoid, Doubted: true, Reason: "why"}},
		{"nothing was sent of a revived refused payment", unsentOutcome(Driven, VerdictRefused, false, true, "why"), Outcome{Verdict: VerdictRefused, Reason: "why"}},
		{"nothing was sent again", unsentOutcome(Driven, "", false, true, "why"), Outcome{Reason: "why"}},
		{"only a facilitator has it", unsentOutcome(Created, "", true, true, "why"), Outcome{Reason: "why"}},

		{"canceled", chainOutcome(open, Trace{Canceled: true, SafeLogs: true}), Outcome{Verdict: VerdictVoid, Reason: "authorization canceled on chain", Evident: true}},
		{"canceled after it was settled", chainOutcome(settled, Trace{Canceled: true, SafeLogs: true}), Outcome{Verdict: VerdictDisputed, Reason: "authorization was canceled on chain", Evident: true}},
		{"canceled, not yet safe", chainOutcome(open, Trace{Canceled: true, SafeTime: valid}), Outcome{Evident: true}},
		{"unused past the validity", chainOutcome(open, past), Outcome{Verdict: VerdictVoid, Reason: "expired unused on chain", Evident: true}},
		{"unused past the validity, settled", chainOutcome(settled, past), Outcome{Verdict: VerdictDisputed, Reason: "authorization expired unused on chain", Evident: true}},
		{"unused within the validity", chainOutcome(open, Trace{SafeTime: valid.Add(-time.Second)}), Outcome{}},
		{"used by the state, without its event", chainOutcome(open, Trace{SafeTime: valid, SafeUsed: true}), Outcome{Evident: true}},
		{"the use past the validity", chainOutcome(settled, Trace{Used: true, Transaction: tx, SafeLogs: true, SafeUsed: true, SafeTime: valid}), Outcome{Verdict: VerdictConfirmed, Transaction: tx, Evident: true}},
		{"the use within the validity", chainOutcome(settled, Trace{Used: true, SafeLogs: true, SafeTime: valid.Add(-time.Second)}), Outcome{Evident: true}},

		{"another 402", refusalClaim(open, "no", false).outcome(moved), Outcome{Note: "seller answered 402: no"}},
		{"another 402 to a repeat, used", refusalClaim(open, "no", true).outcome(moved), Outcome{Verdict: VerdictSettled, Transaction: tx, Evident: true, Note: "authorization said to be used: no"}},
		{"another 402 to a repeat, neither yet", refusalClaim(open, "no", true).outcome(neither), Outcome{Note: "seller answered 402: no"}},
		{"another 402 to a repeat, no RPC", refusalClaim(open, "no", true).outcome(unwatched), Outcome{Note: "seller answered 402: no"}},
		{"a 402 to a settled payment", refusalClaim(settled, used, true).outcome(unwatched), Outcome{Note: "seller answered 402: " + used}},
		{"a failed receipt", receiptClaim(open, x402.Receipt{ErrorReason: "no"}).outcome(moved), Outcome{Note: "receipt says failure: no"}},
		{"a receipt of another network", receiptClaim(open, x402.Receipt{Success: true, Network: "polygon", Transaction: tx}).outcome(moved), Outcome{Note: "receipt does not fit: network polygon"}},
		{"a receipt of another payer", receiptClaim(open, x402.Receipt{Success: true, Network: "base", Payer: "0x1", Transaction: tx}).outcome(moved), Outcome{Note: "receipt does not fit: payer 0x1"}},
		{"a receipt of another amount", receiptClaim(open, x402.Receipt{Success: true, Network: "base", Amount: new(money.New(4)), Transaction: tx}).outcome(moved), Outcome{Note: "receipt does not fit: amount 4"}},
		{"a receipt without a transaction", receiptClaim(open, x402.Receipt{Success: true, Network: "base"}).outcome(moved), Outcome{Note: "receipt does not fit: transaction "}},
	} {
		if !reflect.DeepEqual(row.got, row.want) {
			t.Errorf("%s: %+v, want %+v", row.seen, row.got, row.want)
		}
	}
}

// A refusal counts only for the attempt that made the payment, and for one whose payload is known
// not to have left.
func TestEvidenceOfRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how     How
		revived Verdict
		at      Stage
		want    bool
	}{
		{Created, "", "", true},
		{Driven, "", "", false},
		{Resent, "", "", false},
		{Driven, VerdictVoid, "", true},
		{Driven, VerdictRefused, StageVerify, true},
		{Driven, VerdictRefused, StageSettle, false},
	} {
		if got := freshPayload(c.how, c.revived, c.at); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// What time alone does to a payment, and that our clock never voids one.
func TestEvidenceOfTime(t *testing.T) {
	t.Parallel()
	valid := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	payment := func(change func(*Payment)) *Payment {
		p := &Payment{State: Open, Authorization: x402.Authorization{ValidBefore: uint64(valid.Unix())}}
		change(p)
		return p
	}
	open, refused := payment(func(*Payment) {}), payment(func(p *Payment) { p.Refused = true })
	doubted := payment(func(p *Payment) { p.Refused, p.Doubted = true, true })
	putOff := payment(func(p *Payment) { p.State, p.Doubted, p.Check = Void, true, valid.Add(RepeatGrace+maxBackoff) })
	agrees, unknown, wrong := clockWord{agrees: true}, clockWord{}, clockWord{wrong: true}
	for _, c := range []struct {
		name    string
		row     *Payment
		watched bool
		after   time.Duration // the validity
		clock   clockWord
		want    Verdict
	}{
		{"open, valid", open, false, -time.Second, agrees, Unclear},
		{"open, expired without an RPC", open, false, 0, unknown, VerdictUnresolved},
		{"open, expired", open, true, evidenceWait - time.Second, agrees, Unclear},
		{"open, expired, and the RPC is silent", open, true, evidenceWait, agrees, VerdictUnresolved},
		{"unresolved", payment(func(p *Payment) { p.Unresolved = true }), false, time.Hour, agrees, Unclear},
		{"refused", refused, false, time.Hour, agrees, Unclear},
		{"settled", payment(func(p *Payment) { p.State = Settled }), false, time.Hour, agrees, Unclear},
		{"doubted", doubted, false, RepeatGrace - time.Second, agrees, Unclear},
		{"doubted, over", doubted, false, RepeatGrace, agrees, VerdictRefusedExpired},
		{"doubted, over, watched", doubted, true, time.Hour, agrees, Unclear},
		{"doubted, over by a clock that nothing confirms", doubted, false, time.Hour, unknown, Unclear},
		{"doubted, over by such a clock twice", putOff, false, time.Hour, unknown, VerdictRefusedExpired},
		{"doubted, over by a clock that is wrong", putOff, false, time.Hour, wrong, Unclear},
	} {
		if got := expiryOutcome(c.row, c.watched, valid.Add(c.after), c.clock); !reflect.DeepEqual(got, Outcome{Verdict: c.want}) {
			t.Errorf("%s: %+v, want %q", c.name, got, c.want)
		}
	}
}

// Which words of an RPC count.
func TestEvidenceOfRPC(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	kept := &ChainBlock{Number: 7, Hash: "0x07"}
	full := Trace{Used: true, SafeUsed: true, SafeLogs: true, SafeTime: now, KeptHash: "0x07", Latest: now}
	with := func(change func(*Trace)) Trace { c := full; change(&c); return c }
	late := now.Add(clockStop + time.Second)
	for _, c := range []struct {
		trace  Trace
		kept   *ChainBlock
		reason string
		counts Trace
	}{
		{full, kept, "", full},
		{with(func(t *Trace) { t.KeptHash = "" }), nil, "", with(func(t *Trace) { t.KeptHash = "" })},
		{with(func(t *Trace) { t.KeptHash = "0x08" }), kept, ignoredFork, Trace{}},
		{with(func(t *Trace) { t.KeptHash = "" }), kept, ignoredNoBlock, with(func(t *Trace) { *t = t.withoutSafe(); t.KeptHash = "" })},
		{with(func(t *Trace) { t.SafeTime = late }), kept, ignoredAhead, full.withoutSafe()},
		{with(func(t *Trace) { t.Latest = late }), kept, ignoredAhead, with(func(t *Trace) { *t = t.withoutSafe(); t.Latest = late })},
		{with(func(t *Trace) { t.Latest = now.Add(-clockStop - time.Second) }), kept, ignoredStale, with(func(t *Trace) { *t = t.withoutSafe(); t.Latest = now.Add(-clockStop - time.Second) })},
		{with(func(t *Trace) { t.Latest = time.Time{} }), kept, "", with(func(t *Trace) { t.Latest = time.Time{} })},
	} {
		got, why := admitted(c.trace, c.kept, now, now)
		if got != c.counts || why.reason != c.reason || (why.err == nil) != (c.reason == "") {
			t.Errorf("%+v counts as %+v, %+v; want %q", c.trace, got, why, c.reason)
		}
	}
	for _, c := range []struct {
		id      ChainIdentity
		world   string
		foreign bool
		fails   bool
	}{
		{ChainIdentity{8453, "0x1"}, "0x1", false, false},
		{ChainIdentity{8453, "0x1"}, SandboxWorld, false, false},
		{ChainIdentity{8453, "0x2"}, "0x1", true, true},
		{ChainIdentity{1, "0x1"}, "0x1", true, true},
		{ChainIdentity{8453, ""}, "", false, true},
	} {
		if err := foreignChain(c.id, 8453, c.world, "rpc"); is[*foreignError](err) != c.foreign || (err != nil) != c.fails {
			t.Errorf("%+v in world %q: %v", c.id, c.world, err)
		}
	}
	row := &Payment{State: Open, Authorization: x402.Authorization{ValidBefore: uint64(now.Unix())}}
	unused := Trace{SafeTime: now}
	for name, c := range map[string]struct {
		second       Trace
		counts       Trace
		contradicted bool
	}{
		"it agrees":           {unused, unused, false},
		"it says nothing yet": {Trace{}, unused.withoutSafe(), false},
		"it shows the use":    {Trace{Used: true}, unused.withoutSafe(), true},
	} {
		if got, contradicted := agreed(row, unused, c.second); got != c.counts || contradicted != c.contradicted {
			t.Errorf("%s: %+v, %v", name, got, contradicted)
		}
	}
	if !needsSecond(row, unused) || needsSecond(row, Trace{Used: true}) || !needsSecond(&Payment{State: Settled}, unused) || needsSecond(row, Trace{}) {
		t.Error("the second RPC is asked before money is free, and only then")
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	const (
		nothing = iota
		used
		pending
		early // before broadcasting
	)
	for reason, want := range map[string]int{
		"nonce_already_used":                             used,
		"invalid_exact_evm_nonce_already_used":           used,
		"Invalid_Exact_EVM_Nonce_Already_Used":           used,
		"duplicate_settlement":                           used,
		"Settlement failed: duplicate_settlement.":       used,
		"FiatTokenV2: authorization is used or canceled": used,
		`execution reverted: "FiatTokenV2: authorization is used or canceled" (0x08c379a0)`: used,

		"settlement_pending": pending,
		"settle_exact_evm_transaction_confirmation_timed_out": pending,
		"invalid_exact_evm_failed_to_get_receipt":             pending,

		"insufficient_funds":                     early,
		" insufficient_funds\n":                  early,
		"invalid_exact_evm_insufficient_balance": early,
		"invalid_payload":                        early,
		"invalid_scheme":                         early,
		"invalid_network":                        early,
		"invalid_exact_evm_payload_authorization_valid_before": early,
		"invalid_exact_evm_recipient_mismatch":                 early,
		"invalid_exact_evm_payload_authorization_value":        early,
		"invalid_exact_evm_transaction_simulation_failed":      early,
		"self_send_not_allowed":                                early,

		"":                                     nothing,
		"Payment required":                     nothing,
		"something_new":                        nothing,
		"transaction_failed":                   nothing,
		"invalid_exact_evm_transaction_failed": nothing,
		"invalid_exact_evm_transfer_event_mismatch":    nothing,
		"invalid_transaction_state":                    nothing,
		"settle_exact_failed_onchain":                  nothing,
		"settle_exact_node_failure":                    nothing,
		"unexpected_settle_error":                      nothing,
		"unexpected_verify_error":                      nothing,
		"unknown_error":                                nothing,
		"smart_wallet_deployment_failed":               nothing,
		"invalid_exact_evm_failed_to_check_nonce":      nothing,
		"invalid_exact_evm_failed_to_execute_transfer": nothing,
		"invalid_exact_evm_signature":                  nothing,
		"invalid_exact_evm_payload_signature":          nothing,
		"payment_expired":                              nothing,
		// A word inside text may be about something else; only a whole word refuses.
		"retry after transaction_failed: insufficient_funds": nothing,
		"insufficient_funds_for_gas":                         nothing,
	} {
		got := nothing
		set := 0
		for class, is := range map[int]bool{used: UsedReason(reason), pending: PendingReason(reason), early: PreBroadcastReason(reason)} {
			if is {
				got = class
				set++
			}
		}
		if got != want || set > 1 {
			t.Errorf("%q: class %d (%d classes), want %d", reason, got, set, want)
		}
	}
}

// Every word of the table belongs to one class only.
func TestReasonClassesAreDisjoint(t *testing.T) {
	t.Parallel()
	for word := range preBroadcastWords {
		if UsedReason(word) || PendingReason(word) {
			t.Errorf("%q is in two classes", word)
		}
	}
}
