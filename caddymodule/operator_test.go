package caddymodule

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/proxy"
)

// ways to the REST API: as it is, and through the proxy that the same port is.
func waysToREST(t *testing.T, s *site, key string) map[string]*http.Client {
	t.Helper()
	return map[string]*http.Client{"directly": newClient(t), "through the proxy": s.through(t, url.UserPassword(key, "task"))}
}

// asks posts to POST /v1/pay and returns its answer.
func asks(t *testing.T, c *http.Client, s *site, key string, amount int, page, settlement string) (int, map[string]any) {
	t.Helper()
	body := fmt.Sprintf(`{"paymentRequiredHeader":%q,"requestUrl":"https://api.example.com/%s","settlement":%q}`, challenge(amount), page, settlement)
	var resp *http.Response
	connected(t, func() (err error) {
		resp, err = c.Do(newRequest(t, "POST", s.url()+"/v1/pay", strings.NewReader(body), "X-Api-Key", key, "Content-Type", "application/json"))
		return err
	})
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := map[string]any{}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%d %s: %v", resp.StatusCode, text, err)
	}
	return resp.StatusCode, answer
}

// refused checks that policy kept a payment from being signed.
func refused(t *testing.T, what, rule string, status int, answer map[string]any) {
	t.Helper()
	if status != http.StatusPaymentRequired || answer["error"] != "Payment refused by policy" || answer["rule"] != rule || answer["paymentSignature"] != nil {
		t.Errorf("%s: %d %v, want a refusal by %s", what, status, answer, rule)
	}
}

// Keys that the operator has made are not signed more for on REST than through the proxy, in
// either settlement and by either way. An agent that was given PURSER_KEY could empty the
// wallet in one request otherwise.
func TestOperatorsKeysHaveTheLimitsOnREST(t *testing.T) {
	t.Setenv("PURSER_MAX_PAYMENT", "1")
	t.Setenv("PURSER_DAILY_BUDGET", "10")
	t.Setenv("PURSER_KEY", "pk_deployment")
	t.Setenv("OTHER_KEY", "pk_other-door")
	s, socket := bookSite(t)
	s.route = "@side path /side\n\t\treverse_proxy @side http://127.0.0.1:9 {\n\t\t\ttransport purser {\n\t\t\t\tkey {env.OTHER_KEY}\n\t\t\t}\n\t\t}\n\t\t" + s.route
	mustLoad(t, replaceOnce(t, s.caddyfile(), "admin off", "admin unix/"+socket+"|0600"))
	created := decode[adminapi.CreatedKey](t, told(t, socket, "keys", "create", "--label", "research", "--json"))
	for name, key := range map[string]string{"PURSER_KEY": "pk_deployment", "keys create": created.Key, "a transport's key": "pk_other-door"} {
		for way, client := range waysToREST(t, s, key) {
			for _, settlement := range []string{"payer", "seller"} {
				status, answer := asks(t, client, s, key, 5_000_000_000, "dear", settlement)
				refused(t, strings.Join([]string{name, way, settlement}, ", "), "per-payment", status, answer)
			}
		}
	}
	// More needs an explicit policy.
	told(t, socket, "limits", created.ID, "--max-payment", "6000", "--daily-budget", "off")
	if status, answer := asks(t, newClient(t), s, created.Key, 5_000_000_000, "dear", "payer"); status != 200 {
		t.Errorf("with a policy that allows it: %d %v", status, answer)
	}
	// Only keys that clients make have no limits there.
	plain := newKey(t, s.url())
	if status, answer := asks(t, newClient(t), s, plain, 5_000_000_000, "dear", "payer"); status != 200 {
		t.Errorf("a plain key: %d %v", status, answer)
	}
}

// A day's budget is one for all doors.
func TestBudgetIsSharedByAllDoors(t *testing.T) {
	t.Setenv("PURSER_MAX_PAYMENT", "1")
	t.Setenv("PURSER_DAILY_BUDGET", "2")
	t.Setenv("PURSER_KEY", "pk_deployment")
	s, _ := bookSite(t)
	seller := newSeller(t)
	agent := s.through(t, url.UserPassword("pk_deployment", "task"))
	if status, header, _ := get(t, agent, seller.URL+"/1"); status != 200 {
		t.Fatalf("%d %v", status, header)
	}
	for i, c := range []struct {
		amount     int
		settlement string
		fits       bool
	}{{1_000_000, "payer", true}, {995_000, "seller", false}, {980_000, "seller", true}, {10_001, "payer", false}, {10_000, "payer", true}, {1, "seller", false}} {
		status, answer := asks(t, newClient(t), s, "pk_deployment", c.amount, fmt.Sprint(i), c.settlement)
		if c.fits && status != 200 {
			t.Errorf("%+v: %d %v", c, status, answer)
		} else if !c.fits {
			refused(t, fmt.Sprintf("%+v", c), "daily-budget", status, answer)
		}
	}
	if status, header, _ := get(t, agent, seller.URL+"/2"); status != http.StatusPaymentRequired || header.Get(proxy.HeaderDeclined) != "daily-budget" {
		t.Errorf("the proxy, after REST has spent all: %d %v", status, header)
	}
}

// A key that was made by POST /api-keys becomes the operator's when it is configured, for good.
func TestPlainKeyBecomesTheOperators(t *testing.T) {
	t.Setenv("PURSER_MAX_PAYMENT", "1")
	s, socket := bookSite(t)
	mustCall(t, 201, "POST", s.url()+"/api-keys", "", `{"key":"pk_deployment"}`)
	mustCall(t, 201, "POST", s.url()+"/wallets", "pk_deployment", `{}`)
	if status, answer := asks(t, newClient(t), s, "pk_deployment", 2_000_000, "before", "payer"); status != 200 {
		t.Fatalf("%d %v", status, answer)
	}
	for _, configured := range []string{"pk_deployment", ""} { // and once more when it is not any longer
		t.Setenv("PURSER_KEY", configured)
		mustLoad(t, replaceOnce(t, s.caddyfile(), "admin off", "admin unix/"+socket+"|0600"))
		status, answer := asks(t, newClient(t), s, "pk_deployment", 2_000_000, "after"+configured, "payer")
		refused(t, "PURSER_KEY="+configured, "per-payment", status, answer)
	}
}
