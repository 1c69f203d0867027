package caddymodule

import (
	"slices"
	"testing"

	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// A door tells of what it declines and of what it turns away in the same way, so that both are watched
// and counted.
func TestDoorsTellOfAllThatTheyDecline(t *testing.T) {
	t.Parallel()
	var told []string
	o := metrics.Door{Door: policy.DoorProxy, Heard: func(door policy.Door, d pay.Decline) { told = append(told, string(door)+" "+d.Reason) }}
	o.Declined(pay.Decline{Reason: "per-payment"})
	o.TurnedAway(pay.Decline{Reason: "deny-private"})
	o.Refused("upstream-timeout") // nothing was declined
	if want := []string{"proxy per-payment", "proxy deny-private"}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}
