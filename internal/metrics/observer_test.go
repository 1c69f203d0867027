package metrics

import (
	"fmt"
	"testing"

	"github.com/purserpay/purser/internal/feed"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

func TestOutcomeLabels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		was  pay.State
		v    pay.Verdict
		want string
	}{
		{pay.Open, pay.VerdictSettled, "settled"},
		{pay.Void, pay.VerdictSettled, "settled"},
		{pay.Settled, pay.VerdictSettled, ""},
		{pay.Open, pay.VerdictVoid, "void"},
		{pay.Settled, pay.VerdictVoid, ""},
		{pay.Open, pay.VerdictRefused, "refused"},
		{pay.Open, pay.VerdictRefusedExpired, ""},
		{pay.Open, pay.VerdictUnresolved, "unresolved"},
		{pay.Settled, pay.VerdictConfirmed, "confirmed"},
		{pay.Settled, pay.VerdictDisputed, "disputed"},
	} {
		if got := outcomeOf(c.was, c.v); got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.was, c.v, got, c.want)
		}
	}
}

func TestRefusalLabelsAreBounded(t *testing.T) {
	t.Parallel()
	o := Observer{Feed: feed.New(nil)}
	for i := range 50 {
		o.Refused(policy.DoorAPI, fmt.Sprint("made-up-", i))
	}
	for _, rule := range []string{"made-up-0", "made-up-49"} {
		if Process.Refusals.DeleteLabelValues("api", rule) {
			t.Errorf("%s became a label", rule)
		}
	}
}
