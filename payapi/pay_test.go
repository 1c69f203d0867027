package payapi_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

const (
	headerRequired = "paymentRequiredHeader (base64) required"
	noWallet       = "No wallet for network base. Create one with POST /wallets."
	verifyFailed   = "Payment verification failed"
	settleFailed   = "Payment settlement failed"
)

func TestPay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	from := w.call("GET", "/wallets/me", key, nil).list("wallets")[0]["address"]
	for name, c := range map[string]struct{ challenge, header string }{
		"v1": {v1(requirement(nil)), "X-PAYMENT"}, "v2": {v2(requirementV2(nil)), "PAYMENT-SIGNATURE"},
		"bare v1": {encode(requirement(nil)), "X-PAYMENT"}, "bare v2": {encode(requirementV2(nil)), "PAYMENT-SIGNATURE"},
		"unpadded": {strings.TrimRight(v1(requirement(map[string]any{"maxAmountRequired": "77"})), "="), "X-PAYMENT"},
		"URL-safe": {base64.RawURLEncoding.EncodeToString(mustDecode(v2(requirementV2(nil)))), "PAYMENT-SIGNATURE"},
		"second entry": {v2(requirementV2(map[string]any{"network": "eip155:1"}),
			requirementV2(map[string]any{"scheme": "upto"}), requirementV2(nil)), "PAYMENT-SIGNATURE"},
	} {
		a := w.call("POST", "/v1/pay", key, map[string]any{"paymentRequiredHeader": c.challenge, "requestUrl": "https://api.example.com/" + name}).
			is(200, "").want("settled", true).want("paymentHeader", c.header).
			want("payment.state", "settled").want("payment.flags", []string{})
		payload, err := x402.DecodePayload(a.text("paymentSignature"))
		if err != nil {
			t.Fatal(err)
		}
		auth, _, err := payload.Authorization()
		if err != nil {
			t.Fatal(err)
		}
		if auth.From.String() != from || auth.To.String() != seller {
			t.Errorf("%s: %s pays %s", name, auth.From, auth.To)
		}
		nonce, _ := auth.Nonce.MarshalText()
		a.want("transaction", transactionOf(string(nonce)))
		if got := time.Unix(int64(auth.ValidBefore), 0).UTC().Format("2006-01-02T15:04:05.000Z"); got != a.text("payment.validBefore") {
			t.Errorf("%s: validBefore %s, payload says %s", name, a.text("payment.validBefore"), got)
		}
		if len(a.body) != 5 {
			t.Errorf("%s: members of the answer: %s", name, a.raw)
		}
	}
}

func mustDecode(s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func TestPayHostileHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	deep := strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)
	for name, header := range map[string]any{
		"missing": nil, "empty": "", "blank": "  ", "number": 5, "object": requirement(nil), "array": []string{v1(requirement(nil))}, "boolean": true,
		"not base64": "!!!", "plain JSON": string(mustDecode(v1(requirement(nil)))), "cut off": v1(requirement(nil))[:41], "odd": "abcde",
		"text": encode("text"), "a number": encode(5), "null": encode(nil), "list": encode([]any{requirement(nil)}),
		"empty object": encode(map[string]any{}), "other object": encode(map[string]any{"hello": "world"}),
		"no accepts": encode(map[string]any{"x402Version": 1}), "empty accepts": v1(), "accepts type": encode(map[string]any{"x402Version": 1, "accepts": "base"}),
		"version":    encode(map[string]any{"x402Version": 3, "accepts": []any{requirement(nil)}}),
		"no network": v1(requirement(map[string]any{"network": nil})), "network type": v1(requirement(map[string]any{"network": 8453})),
		"network empty": v1(requirement(map[string]any{"network": ""})),
		"no scheme":     v1(requirement(map[string]any{"scheme": nil})),
		"no amount":     v1(requirement(map[string]any{"maxAmountRequired": nil})),
		"negative":      v1(requirement(map[string]any{"maxAmountRequired": "-1"})),
		"fraction":      v1(requirement(map[string]any{"maxAmountRequired": "1.5"})),
		"exponent":      v1(requirement(map[string]any{"maxAmountRequired": "1e6"})),
		"amount type":   v1(requirement(map[string]any{"maxAmountRequired": 10000.5})),
		"huge amount":   v1(requirement(map[string]any{"maxAmountRequired": strings.Repeat("9", 80)})),
		"no payTo":      v1(requirement(map[string]any{"payTo": nil})),
		"payTo":         v1(requirement(map[string]any{"payTo": "0x123"})),
		"payTo zero":    v1(requirement(map[string]any{"payTo": "0x" + strings.Repeat("0", 40)})),
		"asset":         v1(requirement(map[string]any{"asset": "USDC"})),
		"timeout":       v1(requirement(map[string]any{"maxTimeoutSeconds": -5})),
		"extra":         v1(requirement(map[string]any{"extra": "USD Coin"})),
		"entry":         encode(map[string]any{"x402Version": 1, "accepts": []any{"base"}}),
		"many entries":  v1(make([]map[string]any, 100)...),
		"deep":          base64.StdEncoding.EncodeToString([]byte(deep)),
		"huge":          base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", 200<<10) + "{}")),
		"key twice":     base64.StdEncoding.EncodeToString([]byte(`{"network":"base","network":"base","scheme":"exact"}`)),
		"not UTF-8":     base64.StdEncoding.EncodeToString([]byte("{\"network\":\"base\",\"scheme\":\"\xff\"}")),
	} {
		a := w.call("POST", "/v1/pay", key, map[string]any{"paymentRequiredHeader": header})
		if a.status != 400 || a.text("error") != headerRequired || a.text("detail") == "" {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	if got := w.call("GET", "/v1/payments", key, nil).list("payments"); len(got) != 0 {
		t.Errorf("journaled: %v", got)
	}
}

func TestPayHostileTerms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	other := "0x2222222222222222222222222222222222222222"
	for name, c := range map[string]struct{ challenge, text string }{
		"solana":          {v2(requirementV2(map[string]any{"network": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"})), "No wallet for network solana. Create one with POST /wallets."},
		"unknown network": {v1(requirement(map[string]any{"network": "moon\u0000base"})), "No wallet for network moonbase. Create one with POST /wallets."},
		"test network":    {v1(requirement(map[string]any{"network": "base-sepolia"})), "No wallet for network base-sepolia. Create one with POST /wallets."},
		"network case":    {v1(requirement(map[string]any{"network": "Base"})), "No wallet for network Base. Create one with POST /wallets."},
		"upto":            {v1(requirement(map[string]any{"scheme": "upto"})), "Unsupported payment scheme upto"},
		"scheme case":     {v1(requirement(map[string]any{"scheme": "EXACT"})), "Unsupported payment scheme EXACT"},
		"permit2":         {v1(requirement(map[string]any{"extra": map[string]any{"assetTransferMethod": "permit2"}})), "Unsupported payment scheme exact"},
		"escrow":          {v2(requirementV2(map[string]any{"extra": map[string]any{"paymentFlow": "escrow"}})), "Unsupported payment scheme exact"},
		"other asset":     {v1(requirement(map[string]any{"asset": other})), "Unsupported asset " + other},
		"domain name":     {v1(requirement(map[string]any{"extra": map[string]any{"name": "USDC", "version": "2"}})), "Unsupported asset " + usdc},
		"domain version":  {v1(requirement(map[string]any{"extra": map[string]any{"name": "USD Coin", "version": "1"}})), "Unsupported asset " + usdc},
		"impossible id": {
			encode(map[string]any{"x402Version": 2, "accepts": []any{requirementV2(nil)}, "extensions": map[string]any{
				"payment-identifier": map[string]any{"info": map[string]any{"required": true}, "schema": map[string]any{"not": true}},
			}}),
			"Unsupported extension payment-identifier",
		},
		"furthest entry":     {v1(requirement(map[string]any{"network": "solana"}), requirement(map[string]any{"scheme": "upto"})), "Unsupported payment scheme upto"},
		"wallet over header": {v1(requirement(map[string]any{"payTo": nil}), requirement(map[string]any{"network": "solana"})), "No wallet for network solana. Create one with POST /wallets."},
	} {
		for _, path := range []string{"/v1/pay", "/v1/quote"} {
			a := w.call("POST", path, key, map[string]any{"paymentRequiredHeader": c.challenge})
			if a.status != 400 || a.text("error") != c.text {
				t.Errorf("%s: %s: %d %s", name, path, a.status, a.raw)
			}
			if strings.HasPrefix(c.text, "No wallet") && !strings.Contains(a.text("detail"), "no wallet can be created there. It pays on base") {
				t.Errorf("%s: %s: the advice to create a wallet stands alone: %s", name, path, a.raw)
			}
		}
	}
	bare := w.call("POST", "/v1/pay", w.newKey(), map[string]any{"paymentRequiredHeader": v1(requirement(map[string]any{"network": "solana"}), requirement(nil))})
	if bare.text("error") != noWallet || strings.Contains(bare.raw, "detail") {
		t.Errorf("a wallet would help, and the answer is %s", bare.raw)
	}
}

func TestPayFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	long := "https://api.example.com/" + strings.Repeat("x", 8<<10)
	for name, c := range map[string]struct {
		field string
		value any
		text  string
	}{
		"relative":         {"requestUrl", "/report", "Invalid requestUrl"},
		"no scheme":        {"requestUrl", "api.example.com/report", "Invalid requestUrl"},
		"other scheme":     {"requestUrl", "ftp://api.example.com/", "Invalid requestUrl"},
		"script":           {"requestUrl", "javascript:alert(1)", "Invalid requestUrl"},
		"no host":          {"requestUrl", "https:///report", "Invalid requestUrl"},
		"no tool":          {"requestUrl", "mcp://weather.stdio/tool/", "Invalid requestUrl"},
		"port only":        {"requestUrl", "https://:443/", "Invalid requestUrl"},
		"opaque":           {"requestUrl", "https:api.example.com", "Invalid requestUrl"},
		"control":          {"requestUrl", "https://api.example.com/\n", "Invalid requestUrl"},
		"too long":         {"requestUrl", long, "Invalid requestUrl"},
		"long host":        {"requestUrl", "https://" + strings.Repeat("a", 254) + "/", "Invalid requestUrl"},
		"long zone":        {"requestUrl", "https://[fe80::1%25" + strings.Repeat("a", 300) + "]/", "Invalid requestUrl"},
		"long port":        {"requestUrl", "https://a:" + strings.Repeat("9", 5000) + "/", "Invalid requestUrl"},
		"type":             {"requestUrl", 5, "Invalid requestUrl"},
		"empty key":        {"idempotencyKey", "", "Invalid idempotencyKey"},
		"long key":         {"idempotencyKey", strings.Repeat("é", 256), "Invalid idempotencyKey"},
		"key type":         {"idempotencyKey", 5, "Invalid idempotencyKey"},
		"broken key":       {"idempotencyKey", "\ufffd", "Invalid idempotencyKey"},
		"other settlement": {"settlement", "both", "Invalid settlement"},
		"settlement case":  {"settlement", "Seller", "Invalid settlement"},
		"settlement type":  {"settlement", true, "Invalid settlement"},
	} {
		body := order(1, c.field, c.value)
		for _, path := range []string{"/v1/pay", "/v1/quote"} {
			if a := w.call("POST", path, key, body); a.status != 400 || a.text("error") != c.text {
				t.Errorf("%s: %s: %d %s", name, path, a.status, a.raw)
			}
		}
	}
	// The longest allowed values, and null for absent.
	w.call("POST", "/v1/pay", key, order(1, "requestUrl", long[:8<<10], "idempotencyKey", strings.Repeat("é", 255), "settlement", nil)).is(200, "")
	w.call("POST", "/v1/pay", key, order(2, "idempotencyKey", nil)).is(200, "").want("settled", true)
}

func TestPayRequestURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	paid := func(given any, resource any) string {
		body := map[string]any{"paymentRequiredHeader": v1(requirement(map[string]any{"resource": resource}))}
		if given != nil {
			body["requestUrl"] = given
		}
		w.call("POST", "/v1/pay", key, body).is(200, "")
		return w.call("GET", "/v1/spend?limit=1", key, nil).list("events")[0]["request_url"].(string)
	}
	for name, c := range map[string]struct {
		given, resource any
		want            string
	}{
		"given":             {"https://a.example/x?y=1#z", bought, "https://a.example/x?y=1#z"},
		"upper case":        {"HTTPS://A.example/", bought, "HTTPS://A.example/"},
		"omitted":           {nil, bought, bought},
		"empty":             {"", bought, bought},
		"nowhere":           {nil, nil, ""},
		"relative resource": {nil, "/report", ""},
		"hostile resource":  {nil, "javascript:alert(1)", ""},
	} {
		if got := paid(c.given, c.resource); got != c.want {
			t.Errorf("%s: recorded %q, want %q", name, got, c.want)
		}
	}
	body := order(1, "requestUrl", nil)
	body["paymentRequiredHeader"] = v1(requirement(map[string]any{"resource": "https://" + strings.Repeat("a", 254) + "/"}))
	for _, path := range []string{"/v1/pay", "/v1/quote"} {
		w.call("POST", path, key, body).is(400, headerRequired).want("detail", "no usable payment requirement: the URL of the resource: its host has more than 253 bytes")
	}
}

func TestPayOrderOfChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.newKey() // without a wallet, with no payment allowed, and every other check failing too
	body := order(1, "requestUrl", "nowhere", "settlement", "both")
	unsupported := v1(requirement(map[string]any{"scheme": "upto"}))
	w.call("POST", "/v1/pay", "pk_unknown_key", map[string]any{"paymentRequiredHeader": "!!!"}).is(401, "API key not resolved")
	body["paymentRequiredHeader"] = "!!!"
	w.call("POST", "/v1/pay", key, body).is(400, headerRequired)
	body["paymentRequiredHeader"] = v1(requirement(map[string]any{"network": nil}))
	w.call("POST", "/v1/pay", key, body).is(400, headerRequired)
	body["paymentRequiredHeader"] = unsupported
	w.call("POST", "/v1/pay", key, body).is(400, "Invalid requestUrl")
	delete(body, "requestUrl")
	w.call("POST", "/v1/pay", key, body).is(400, "Invalid settlement")
	delete(body, "settlement")
	w.call("POST", "/v1/pay", key, body).is(400, noWallet)
	w.call("POST", "/wallets", key, nil).is(201, "")
	w.call("POST", "/v1/pay", key, body).is(400, "Unsupported payment scheme upto")
}

func TestPayPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const refused = "Payment refused by policy"
	key := w.payingKey()
	w.call("POST", "/v1/pay", key, map[string]any{"paymentRequiredHeader": v1(requirement(map[string]any{"maxTimeoutSeconds": 9}))}).
		is(402, refused).want("rule", "validity").want("payment", nil)
	own := w.call("GET", "/wallets/me", key, nil).is(200, "").list("wallets")[0]["address"]
	w.call("POST", "/v1/pay", key, map[string]any{"paymentRequiredHeader": v1(requirement(map[string]any{"payTo": own}))}).
		is(402, refused).want("rule", "own-wallet").want("payment", nil)

	restricted := func(p policy.Policy) string {
		_, secret, err := w.books.CreateKey(t.Context(), books.KeyRequest{Policy: &p})
		if err != nil {
			t.Fatal(err)
		}
		w.call("POST", "/wallets", secret, nil).is(201, "")
		return secret
	}
	proxyOnly := restricted(policy.Policy{Doors: []policy.Door{policy.DoorProxy}})
	w.call("POST", "/v1/pay", proxyOnly, order(1)).is(402, refused).want("rule", "doors")
	w.call("GET", "/v1/spend", proxyOnly, nil).is(200, "")
	most := money.New(100)
	limited := restricted(policy.Policy{MaxPayment: policy.CapOf(most), DailyBudget: policy.CapOf(most)})
	a := w.call("POST", "/v1/pay", limited, order(101)).is(402, refused).want("rule", "per-payment")
	if a.text("detail") == "" {
		t.Error(a.raw)
	}
	w.call("POST", "/v1/pay", limited, order(60)).is(200, "")
	w.call("POST", "/v1/pay", limited, order(60, "requestUrl", bought+"/2")).is(402, refused).want("rule", "daily-budget")
	if n := w.facilitator.settled.Load(); n != 1 {
		t.Errorf("%d settlements", n)
	}
}

func TestPaySellerThatSettles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	id := w.call("POST", "/v1/pay", key, order(1)).is(200, "").text("payment.id")
	again := map[string]any{"requestUrl": bought, "paymentRequiredHeader": encode(map[string]any{
		"x402Version": 1, "error": "invalid_exact_evm_nonce_already_used", "accepts": []any{requirement(nil)},
	})}
	w.call("POST", "/v1/pay", key, again).is(402, verifyFailed).want("detail", "the seller says that the authorization is used already: "+
		`it settles payments itself. Pay it with "settlement":"seller"; the earlier payment is `+id)
}

func TestPayWithoutFacilitator(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.noFacilitator = true })
	key := w.payingKey()
	w.call("POST", "/v1/quote", key, order(1)).is(402, verifyFailed).want("payment", nil)
	w.call("POST", "/v1/pay", key, order(1)).is(402, verifyFailed).want("payment", nil).
		want("detail", `no facilitator is configured (PURSER_FACILITATOR_URL); "settlement":"seller" works without one`)
	w.call("POST", "/v1/pay", key, order(1, "settlement", "seller")).is(200, "").want("settled", false)
}

func TestPayDefaultSettlement(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.api.DefaultSettlement = pay.SettleSeller })
	key := w.payingKey()
	w.call("POST", "/v1/pay", key, order(1)).is(200, "").want("settled", false).want("transaction", "").want("payment.state", "open")
	w.call("POST", "/v1/pay", key, order(2, "settlement", "payer")).is(200, "").want("settled", true)
}

// Every failure of a facilitator gives a 402 with the right text, and the payment follows the
// evidence.
func TestPayFacilitatorFails(t *testing.T) {
	t.Parallel()
	tx := "0x" + strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		verify, settle http.HandlerFunc
		text           string
		state          string
		flags          []string
	}{
		"verify refuses":         {says(200, `{"isValid":false,"invalidReason":"insufficient_funds"}`), nil, verifyFailed, "open", []string{"refused"}},
		"verify refuses 400":     {says(400, `{"isValid":false,"invalidReason":"anything"}`), nil, verifyFailed, "open", []string{"refused"}},
		"verify HTML":            {says(200, `<html>gateway</html>`), nil, verifyFailed, "open", []string{}},
		"verify 500":             {says(500, `{"error":"boom"}`), nil, verifyFailed, "open", []string{}},
		"verify 401":             {says(401, `{"message":"bad key"}`), nil, verifyFailed, "open", []string{}},
		"verify resets":          {hangUp, nil, verifyFailed, "open", []string{}},
		"verify empty":           {says(200, ``), nil, verifyFailed, "open", []string{}},
		"verify type":            {says(200, `{"isValid":"true"}`), nil, verifyFailed, "open", []string{}},
		"settle refuses":         {nil, says(200, `{"success":false,"errorReason":"insufficient_funds","transaction":"","network":"base"}`), settleFailed, "open", []string{"refused"}},
		"settle refuses with tx": {nil, says(200, `{"success":false,"errorReason":"insufficient_funds","transaction":"`+tx+`"}`), settleFailed, "open", []string{}},
		"settle unknown":         {nil, says(200, `{"success":false,"errorReason":"never_heard_of"}`), settleFailed, "open", []string{}},
		"settle pending":         {nil, says(200, `{"success":false,"errorReason":"settlement_pending","transaction":"`+tx+`"}`), settleFailed, "open", []string{}},
		"settle contradicts":     {nil, says(200, `{"success":true,"errorReason":"insufficient_funds","transaction":"`+tx+`"}`), settleFailed, "open", []string{}},
		"settle HTML":            {nil, says(502, `<html>bad gateway</html>`), settleFailed, "open", []string{}},
		"settle resets":          {nil, hangUp, settleFailed, "open", []string{}},
		"settle success type":    {nil, says(200, `{"success":"yes"}`), settleFailed, "open", []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.verify != nil {
				w.facilitator.onVerify(c.verify)
			}
			if c.settle != nil {
				w.facilitator.onSettle(c.settle)
			}
			key := w.payingKey()
			a := w.call("POST", "/v1/pay", key, order(7)).is(402, c.text).want("payment.state", c.state).want("payment.flags", c.flags)
			if _, ok := a.at("facilitator").(map[string]any); !ok || a.text("payment.id") == "" || a.text("payment.validBefore") == "" {
				t.Error(a.raw)
			}
			if a.header.Get("Retry-After") == "" {
				t.Error("no Retry-After while open")
			}
			w.call("GET", "/v1/payments/"+a.text("payment.id"), key, nil).is(200, "").want("payment.state", c.state).want("payment.flags", c.flags)
			spend := w.call("GET", "/v1/spend", key, nil).is(200, "").want("events", []any{})
			if len(c.flags) == 0 {
				spend.want("pending", map[string]any{"count": 1, "amount": "7"})
			} else {
				spend.want("pending", map[string]any{"count": 0, "amount": "0"})
			}
		})
	}
}

func TestPayFacilitatorDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	w.facilitator.close()
	a := w.call("POST", "/v1/pay", key, order(1)).is(402, verifyFailed).want("payment.state", "void")
	if a.text("facilitator.error") == "" || a.header.Get("Retry-After") != "" {
		t.Errorf("%v %s", a.header, a.raw)
	}
	if strings.Contains(a.raw, w.facilitator.url) {
		t.Error("names the facilitator's URL: " + a.raw)
	}
}

// Without an RPC to ask, a used authorization counts as money that moved.
func TestPayUsedAuthorization(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.facilitator.onSettle(says(200, `{"success":false,"errorReason":"invalid_exact_evm_nonce_already_used"}`))
	key := w.payingKey()
	w.call("POST", "/v1/pay", key, order(1)).is(200, "").want("settled", true).want("transaction", "")
	w.facilitator.onSettle(says(200, `{"success":true,"transaction":"not a hash","network":"base"}`))
	w.call("POST", "/v1/pay", key, order(2)).is(200, "").want("settled", true).want("transaction", "")
}

func TestPayManyFieldsOfFacilitator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.facilitator.onVerify(says(200, `{"isValid":false,"invalidReason":"insufficient_funds","invalidMessage":"<b>0 < 1 & 2</b>","extra":{"x":1}}`))
	a := w.call("POST", "/v1/pay", w.payingKey(), order(1)).is(402, verifyFailed).want("detail", "insufficient_funds").
		want("facilitator.extra.x", 1).want("facilitator.isValid", false)
	if a.text("facilitator.invalidMessage") != "<b>0 < 1 & 2</b>" {
		t.Error(fmt.Sprint(a.body))
	}
}

// The API tells of a payment that it refuses, in the words of its answer.
func TestDeclinedIsTold(t *testing.T) {
	t.Parallel()
	told := make(chan pay.Decline, 1)
	w := newWorld(t, func(s *setup) { s.api.Declined = func(d pay.Decline) { told <- d } })
	most := money.New(100)
	k, secret, err := w.books.CreateKey(t.Context(), books.KeyRequest{Policy: &policy.Policy{MaxPayment: policy.CapOf(most)}})
	if err != nil {
		t.Fatal(err)
	}
	w.call("POST", "/wallets", secret, nil).is(201, "")
	body := order(101)
	body["task"], body["requestUrl"] = "nightly", "https://api.example.com:8443/x?token=t0ken"
	a := w.call("POST", "/v1/pay", secret, body).is(402, "Payment refused by policy")
	d := <-told
	if d.Reason != "per-payment" || d.Detail != a.text("detail") || d.KeyID != k.ID || d.Task != "nightly" || d.Host != "api.example.com:8443" ||
		d.Price == nil || d.Price.String() != "101" {
		t.Errorf("%+v", d)
	}
	w.call("POST", "/v1/pay", secret, order(100)).is(200, "")
	if len(told) > 0 {
		t.Errorf("%+v", <-told)
	}
	w.call("POST", "/v1/pay", secret, map[string]string{"paymentRequiredHeader": "e30="}).is(400, "paymentRequiredHeader (base64) required")
	if d := <-told; d.Reason != "challenge-unreadable" || d.KeyID != k.ID {
		t.Errorf("%+v", d)
	}
	if w.call("POST", "/v1/pay", secret, map[string]int{"task": 1, "paymentRequiredHeader": 2}); len(told) > 0 {
		t.Errorf("a malformed call counts as a purchase: %+v", <-told)
	}
}

// A challenge of this door is paid whatever it describes at length, and its payload echoes the infos only.
func TestLargeChallenge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	words := strings.Repeat("All prices of the exchange. ", 450)
	extensions := map[string]any{"bazaar": map[string]any{"info": map[string]any{"method": "GET"}, "schema": map[string]any{"description": words + words}}}
	for name, c := range map[string]map[string]any{
		"2": {
			"x402Version": 2, "accepts": []any{requirementV2(nil)}, "extensions": extensions,
			"resource": map[string]any{"url": bought, "description": words},
		},
		"1": {"x402Version": 1, "accepts": []any{requirement(map[string]any{"outputSchema": extensions, "description": words})}},
	} {
		key := w.payingKey()
		body := map[string]any{"paymentRequiredHeader": encode(c), "requestUrl": bought, "settlement": "seller", "idempotencyKey": "order-" + name}
		first := w.call("POST", "/v1/pay", key, body).is(200, "")
		sent, err := base64.StdEncoding.DecodeString(first.text("paymentSignature"))
		if err != nil || len(sent) > 8<<10 || strings.Contains(string(sent), `"schema"`) || name == "2" && !strings.Contains(string(sent), `"bazaar":{"info":{"method":"GET"}}`) {
			t.Errorf("version %s: %s, %v", name, sent, err)
		}
		w.call("POST", "/v1/pay", key, body).is(200, "").want("paymentSignature", first.text("paymentSignature"))
	}
}
