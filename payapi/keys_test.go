package payapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/purserpay/purser/payapi"
)

const keyFailed = "Failed to create API key"

func TestRoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.call("GET", "/", "", nil).is(200, "")
	if a.raw != `{"ok":true,"service":"purser"}`+"\n" {
		t.Error(a.raw)
	}
}

func TestCreateKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	generated := w.call("POST", "/api-keys", "", map[string]any{"label": "prod <1> & co"}).is(201, "").want("label", "prod <1> & co")
	if key := generated.text("key"); !strings.HasPrefix(key, "pk_") || len(key) < 40 {
		t.Errorf("generated %d characters", len(key))
	}
	if err := uuid.Validate(generated.text("id")); err != nil {
		t.Error(err)
	}
	if !strings.Contains(generated.raw, "prod <1> & co") {
		t.Error("escaped for HTML: " + generated.raw)
	}
	for name, body := range map[string]any{
		"no body": nil, "empty object": "{}", "nulls": `{"label":null,"key":null,"organization_id":null,"plan":null}`,
		"empty key": `{"key":""}`, "unknown members": `{"other":[1]}`, "names match exactly": `{"Label":5}`,
	} {
		a := w.call("POST", "/api-keys", "", body)
		if a.status != 201 || a.text("label") != "" || !strings.HasPrefix(a.text("key"), "pk_") {
			t.Errorf("%s: %s", name, a.raw)
		}
	}
	own := "my.own_key~+/=-0"
	w.call("POST", "/api-keys", "", map[string]any{"key": own, "label": strings.Repeat("é", 200)}).is(201, "").want("key", own)
	w.call("POST", "/api-keys", "", map[string]any{"key": own}).is(400, "That API key already exists")
	w.call("GET", "/wallets/me", own, nil).is(200, "")
	w.call("POST", "/api-keys", "", map[string]any{"key": strings.Repeat("k", 256)}).is(201, "")
	w.call("POST", "/api-keys", "", map[string]any{"key": "12345678"}, "Content-Type", "text/plain").is(201, "")
}

func TestCreateKeyRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, body := range map[string]any{
		"short":              `{"key":"1234567"}`,
		"long":               map[string]any{"key": strings.Repeat("k", 257)},
		"characters":         `{"key":"12345678 9"}`,
		"not ASCII":          `{"key":"ключключ"}`,
		"number":             `{"key":12345678}`,
		"label long":         map[string]any{"label": strings.Repeat("l", 201)},
		"label type":         `{"label":{}}`,
		"privileged":         `{"organization_id":"org"}`,
		"plan":               `{"plan":"FREE"}`,
		"empty organization": `{"organization_id":""}`,
		"organization type":  `{"organization_id":7}`,
	} {
		a := w.call("POST", "/api-keys", "", body)
		if a.status != 400 || a.text("error") != keyFailed || a.text("detail") == "" {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
}

func TestCreateKeyPrivileged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := []string{"X-Internal-Secret", internalSecret}
	for name, c := range map[string]struct {
		body   string
		header []string
	}{
		"wrong secret":        {`{"organization_id":"org"}`, []string{"X-Internal-Secret", internalSecret + "x"}},
		"empty secret":        {`{"organization_id":"org"}`, []string{"X-Internal-Secret", ""}},
		"two secrets":         {`{"organization_id":"org"}`, append(secret, secret...)},
		"unknown plan":        {`{"organization_id":"org","plan":"GOLD"}`, secret},
		"empty plan":          {`{"organization_id":"org","plan":""}`, secret},
		"plan type":           {`{"organization_id":"org","plan":1}`, secret},
		"plan alone":          {`{"plan":"FREE"}`, secret},
		"empty organization":  {`{"organization_id":""}`, secret},
		"invisible":           {`{"organization_id":"a b"}`, secret},
		"organization length": {fmt.Sprintf(`{"organization_id":%q}`, strings.Repeat("o", 201)), secret},
	} {
		a := w.call("POST", "/api-keys", "", c.body, c.header...)
		if a.status != 400 || a.text("error") != keyFailed || a.text("detail") == "" {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	// Without privileged fields a wrong secret is ignored.
	w.call("POST", "/api-keys", "", `{"label":"x"}`, "X-Internal-Secret", "wrong").is(201, "")

	// The free plan has room for three keys and three wallets. A better plan has room for more.
	for range 3 {
		w.call("POST", "/api-keys", "", `{"organization_id":"org"}`, secret...).is(201, "")
	}
	w.call("POST", "/api-keys", "", `{"organization_id":"org"}`, secret...).
		is(429, "API key limit reached for your plan").want("upgradeUrl", w.url+"/dashboard")
	key := w.call("POST", "/api-keys", "", `{"organization_id":"org","plan":"developer"}`, secret...).is(201, "").text("key")
	for range 10 {
		w.call("POST", "/wallets", key, nil).is(201, "")
	}
	w.call("POST", "/wallets", key, nil).is(429, "Wallet limit reached for your plan").want("upgradeUrl", w.url+"/dashboard")
}

func TestCreateKeyWithoutInternalSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.api.InternalSecret = "" })
	for _, header := range [][]string{nil, {"X-Internal-Secret", ""}, {"X-Internal-Secret", internalSecret}} {
		w.call("POST", "/api-keys", "", `{"organization_id":"org"}`, header...).is(400, keyFailed)
	}
}

// The holder of the internal secret answers for a key without an organization, which may then use a proxy
// that strangers reach. A stranger's key may not.
func TestKeysThatRelay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		body   string
		header []string
		want   bool
	}{
		{`{}`, nil, false},
		{`{}`, []string{"X-Internal-Secret", "a wrong one"}, false},
		{`{}`, []string{"X-Internal-Secret", internalSecret}, true},
		{`{"organization_id":"org"}`, []string{"X-Internal-Secret", internalSecret}, true},
	} {
		secret := w.call("POST", "/api-keys", "", c.body, c.header...).is(201, "").text("key")
		key, err := w.payer.Resolve(t.Context(), secret)
		if err != nil || key.Relays() != c.want {
			t.Errorf("%s, %v: relays %t, %v", c.body, c.header, key.Relays(), err)
		}
	}
}

func TestCreateKeyRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.api.KeyRate = 0 })
	for range 60 {
		w.call("POST", "/api-keys", "", nil).is(201, "")
	}
	var last answer
	for range 60 { // one turn comes back every second
		if last = w.call("POST", "/api-keys", "", nil); last.status == 429 {
			break
		}
	}
	last.is(429, "Too many requests").want("upgradeUrl", w.url+"/dashboard")
	if got := last.header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After %q", got)
	}
	w.call("GET", "/", "", nil).is(200, "") // other requests are not bounded
	w.clock.advance(2e9)
	w.call("POST", "/api-keys", "", nil).is(201, "")
}

func TestUpgradeURL(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options payapi.Options
		want    string
	}{
		"public URL":  {payapi.Options{PublicURL: "https://pay.example.com/"}, "https://pay.example.com/dashboard"},
		"upgrade URL": {payapi.Options{PublicURL: "https://pay.example.com", UpgradeURL: "https://example.com/plans?a&b"}, "https://example.com/plans?a&b"},
	} {
		w := newWorld(t, func(s *setup) {
			s.api.PublicURL, s.api.UpgradeURL, s.api.KeyRate = c.options.PublicURL, c.options.UpgradeURL, 1
		})
		w.call("POST", "/api-keys", "", nil).is(201, "")
		a := w.call("POST", "/api-keys", "", nil).is(http.StatusTooManyRequests, "Too many requests")
		if a.text("upgradeUrl") != c.want {
			t.Errorf("%s: %s", name, a.raw)
		}
	}
}
