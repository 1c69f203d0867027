package observe

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/declines"
)

// command runs a command of purser beside the sandbox.
func (s *sandbox) command(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), process.Program(s.t, process.Plain), args...) //nolint:gosec // the test's own
	cmd.Env = process.Environment("PURSER_ADMIN=" + s.Admin)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("purser %s: %v\n%s%s", strings.Join(args, " "), err, out, errors.String())
	}
	return string(out)
}

// ways tells of offers in a word each.
func ways(offers []declines.Offer) string {
	var all []string
	for _, o := range offers {
		all = append(all, o.Protocol+" by "+o.Rail+" "+o.Network+" "+o.Price+map[bool]string{true: " pays", false: " " + o.Reason}[o.Pays])
	}
	return strings.Join(all, ", ")
}

// A seller asks in both protocols, and one in MPP only. Quotes show all offers at each door, and every list, sum and story
// says how each payment was made.
func TestBothProtocolsAreNamed(t *testing.T) {
	t.Parallel()
	s := startSandbox(t)
	agent := s.proxied(s.Key, "")
	both := s.Seller + "/mpp/both"

	var dry struct{ Offers []declines.Offer }
	if a := s.send(agent, http.MethodGet, both, "", "Purser-Dry-Run", "1"); json.Unmarshal([]byte(a.Body), &dry) != nil ||
		ways(dry.Offers) != "x402 by eip3009 base 0.01 USDC pays, mpp by mpp-evm base 0.01 USDC later" || dry.Offers[1].Expires == "" {
		t.Errorf("the dry run has %s: %s", ways(dry.Offers), a.Body)
	}
	asked := s.send(direct(), http.MethodGet, both, "")
	challenge := strings.Join(asked.Header.Values("WWW-Authenticate"), ", ")
	body, _ := json.Marshal(map[string]string{"paymentRequiredHeader": challenge, "requestUrl": both, "settlement": "seller"})
	quote := s.send(direct(), http.MethodPost, s.API+"/v1/quote", string(body), "X-Api-Key", s.Key)
	if json.Unmarshal([]byte(quote.Body), &dry) != nil || ways(dry.Offers) != "mpp by mpp-evm base 0.01 USDC pays" {
		t.Errorf("POST /v1/quote: %d %s", quote.Status, quote.Body)
	}
	refused := s.send(direct(), http.MethodPost, s.API+"/v1/quote", string(body), "X-Api-Key", s.Key, "Purser-Max-Amount", "0.001")
	if json.Unmarshal([]byte(refused.Body), &dry) != nil || refused.Status != http.StatusPaymentRequired || ways(dry.Offers) != "mpp by mpp-evm base 0.01 USDC max-amount" {
		t.Errorf("a refused quote: %d %s", refused.Status, refused.Body)
	}

	// Paid over REST: the credential and its field are those of MPP.
	paid := s.send(direct(), http.MethodPost, s.API+"/v1/pay", string(body), "X-Api-Key", s.Key)
	var order struct {
		PaymentHeader, PaymentSignature string
		Payment                         struct{ ID string }
	}
	if json.Unmarshal([]byte(paid.Body), &order) != nil || order.PaymentHeader != "Authorization" {
		t.Fatalf("POST /v1/pay: %d %s", paid.Status, paid.Body)
	}
	got := s.send(direct(), http.MethodGet, both, "", order.PaymentHeader, order.PaymentSignature)
	if got.Status != http.StatusOK {
		t.Fatalf("the seller says %d %s", got.Status, got.Body)
	}
	receipt, _ := json.Marshal(map[string]string{"receipt": got.Header.Get("Payment-Receipt")})
	if a := s.send(direct(), http.MethodPost, s.API+"/v1/payments/"+order.Payment.ID+"/receipt", string(receipt), "X-Api-Key", s.Key); a.Status != http.StatusOK ||
		!strings.Contains(a.Body, `"protocol":"mpp","rail":"mpp-evm"`) || !strings.Contains(a.Body, `"state":"settled"`) {
		t.Errorf("the receipt: %d %s", a.Status, a.Body)
	}

	// Paid by the proxy.
	for _, path := range []string{"/weather", "/mpp/weather"} {
		if a := s.send(agent, http.MethodGet, s.Seller+path, ""); a.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if out := s.command("payments", "--json=protocol,rail"); strings.Count(out, `"mpp-evm"`) != 2 || strings.Count(out, `"eip3009"`) != 1 {
		t.Errorf("purser payments: %s", out)
	}
	if out := s.command("payments", "show", order.Payment.ID); !strings.Contains(out, "MPP by mpp-evm") {
		t.Errorf("purser payments show: %s", out)
	}
	if out := s.command("spend", "--csv"); !strings.Contains(out, ",protocol,rail\n") || strings.Count(out, ",mpp,mpp-evm\n") != 2 {
		t.Errorf("purser spend: %s", out)
	}
	if out := s.command("export", "--format", "hledger"); strings.Count(out, "rail: mpp-evm") != 2 {
		t.Errorf("purser export: %s", out)
	}
	proxy := "http://" + s.Proxy[strings.LastIndex(s.Proxy, "@")+1:]
	var quoted struct {
		Pays   bool
		Quote  struct{ Protocol, Rail string }
		Offers []declines.Offer
	}
	out := s.command("quote", "--key", s.Key, "--proxy", proxy, "--json", both)
	if json.Unmarshal([]byte(out), &quoted) != nil || quoted.Quote.Protocol != "x402" || len(quoted.Offers) != 2 {
		t.Errorf("purser quote --json: %s", out)
	}
	if out := s.command("quote", "--key", s.Key, "--proxy", proxy, both); !strings.Contains(out, "would be paid") || !strings.Contains(out, "later: ") {
		t.Errorf("purser quote: %s", out)
	}
	want := map[string]float64{
		`purser_payments_total{network="base",outcome="settled",protocol="mpp",rail="mpp-evm",settlement="seller"}`:     2,
		`purser_payments_total{network="base",outcome="settled",protocol="x402",rail="eip3009",settlement="seller"}`:    1,
		`purser_settled_amount_total{currency="USDC",network="base",protocol="mpp",rail="mpp-evm",settlement="seller"}`: 20_000,
	}
	eventually(t, "the metrics name protocol and rail", func() bool {
		have := s.scrape()
		for series, value := range want {
			if have.values[series] != value {
				return false
			}
		}
		return true
	})
}
