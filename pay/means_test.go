package pay_test

import (
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

func TestMeansOfAPayment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		payment pay.Payment
		want    pay.Means
		text    string
	}{
		"x402": {
			pay.Payment{Terms: pay.Terms{Scheme: x402.SchemeExact}}, pay.Means{Protocol: "x402", Rail: "eip3009"}, "x402 by eip3009",
		},
		"Permit2": {
			pay.Payment{Terms: pay.Terms{Scheme: x402.SchemeExact}, Authorization: x402.Authorization{Rail: x402.RailPermit2}},
			pay.Means{Protocol: "x402", Rail: "permit2"},
			"x402 by permit2",
		},
		"upto": {
			pay.Payment{Terms: pay.Terms{Scheme: x402.SchemeUpto}, Authorization: x402.Authorization{Rail: x402.RailUpto}},
			pay.Means{Protocol: "x402", Rail: "permit2"},
			"x402 by permit2",
		},
		"MPP, without its challenge": {
			pay.Payment{Terms: pay.Terms{Scheme: x402.SchemeCharge}, Retired: true}, pay.Means{Protocol: "mpp", Rail: "mpp-evm"}, "MPP by mpp-evm",
		},
		"MPP on a network with a rail of its own": {
			pay.Payment{Terms: pay.Terms{Scheme: x402.SchemeCharge, Network: "tempo"}, Authorization: x402.Authorization{Rail: x402.OtherRails}},
			pay.Means{Protocol: "mpp", Rail: "tempo"},
			"MPP by tempo",
		},
		"a withdrawal": {
			pay.Payment{Door: policy.DoorOperator, Terms: pay.Terms{Scheme: x402.SchemeExact}}, pay.Means{Rail: "eip3009"}, "by eip3009",
		},
		"found on the chain": {
			pay.Payment{Reconciled: true, Terms: pay.Terms{Scheme: x402.SchemeExact}}, pay.Means{Rail: "eip3009"}, "by eip3009",
		},
	} {
		if got := c.payment.Means(); got != c.want || got.Words() != c.text {
			t.Errorf("%s: means are %+v, %q", name, got, got.Words())
		}
	}
}
