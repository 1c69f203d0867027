package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// quote runs `purser quote` for a payer's key.
func (p *payer) quote(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.Command(p.purser.Binary, append([]string{"quote", "--key", p.key, "--proxy", "http://" + p.host}, args...)...)
	cmd.Env = p.purser.Environment()
	var out, errors strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errors
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errors.String(), cmd.ProcessState.ExitCode()
}

// `purser quote` and Purser-Dry-Run tell what an official seller asks for, over http and https, and what
// would refuse it. Nothing is paid until the request comes without.
func TestQuote(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t).newPayer(t)
	for _, s := range sellers() {
		for _, scheme := range schemes {
			stdout, stderr, status := p.quote(t, "--json", s.under(t, scheme)+"/paid")
			var q struct {
				Pays  bool
				Quote struct{ Amount, Price, Network, PayTo, Wallet string }
			}
			if err := json.Unmarshal([]byte(stdout), &q); err != nil || status != 0 {
				t.Fatalf("%v, status %d: %s%s", err, status, stdout, stderr)
			}
			if !q.Pays || q.Quote.Amount == "" || !strings.EqualFold(q.Quote.PayTo, s.payTo.Hex()) || !strings.EqualFold(q.Quote.Wallet, p.wallet.Hex()) {
				t.Errorf("%s says %s", scheme, stdout)
			}
		}
	}
	stdout, stderr, status := p.quote(t, env.v2.under(t, "https")+"/paid")
	if status != 0 || !strings.Contains(stdout, "would pay") || !strings.Contains(stdout, " USDC") || stderr != "" {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	client := p.proxied()
	a := send(t, client, "GET", env.v2.under(t, "http")+"/paid", "", "Purser-Max-Amount", "0.000001", "Purser-Dry-Run", "1")
	if requireStatus(t, a, 402); a.Header.Get("Purser-Declined") != "max-amount" || !strings.Contains(a.Body, `"payTo"`) {
		t.Errorf("%v %s", a.Header, a.Body)
	}
	for _, args := range [][]string{{"not a url"}, {"ftp://example.com/"}, {}} {
		if stdout, stderr, status := p.quote(t, args...); status == 0 || stderr == "" {
			t.Errorf("%q: %d %s%s", args, status, stdout, stderr)
		}
	}
	if all := p.payments(t, ""); len(all) != 0 {
		t.Fatalf("quotes have made %v", all)
	}
	requirePaidAnswer(t, send(t, client, "GET", env.v2.under(t, "http")+"/paid", "", "Purser-Max-Amount", "5"), getPaid, p)
	p.requireSettled(t, env.v2.payTo, 1)
	p.requireLimits(t)
}

// requireLimits demands that the key reads its own limits, with what is left of them.
func (p *payer) requireLimits(t *testing.T) {
	t.Helper()
	a := p.call(t, "GET", "/v1/limits?door=proxy", "")
	var got struct {
		Pays   bool
		Limits []struct{ Rule, Limit, Spent, Left string }
	}
	if err := json.Unmarshal([]byte(a.Body), &got); err != nil || !got.Pays || len(got.Limits) == 0 {
		t.Fatalf("%v: %s", err, a.Body)
	}
	for _, l := range got.Limits {
		if l.Rule == "daily-budget" && (l.Left == "" || l.Spent == "0.00 USDC" || l.Left == l.Limit) {
			t.Errorf("%+v", l)
		}
	}
}
