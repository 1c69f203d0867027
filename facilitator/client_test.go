package facilitator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"go.uber.org/goleak"

	"github.com/purserpay/purser/facilitator"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

const key = "fk_Secret-0123456789"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exchange is a signed payment whose parts have spaces, escapes and unknown members that must survive.
func exchange(t *testing.T) (pay.Exchange, x402.Signature) {
	t.Helper()
	requirement := json.RawMessage(`{ "scheme":"exact","network":"eip155:8453", "amount":"10000","asset":"0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",` +
		`"payTo":"0x00000000000000000000000000000000000000aa","maxTimeoutSeconds":60,"note":"<\u00e9&>","extra":{"version":"2","name":"USD Coin"}}`)
	private := must(crypto.GenerateKey())
	network, _ := x402.NetworkByWire("base")
	a := x402.Authorization{
		From: x402.EVMAddress(crypto.PubkeyToAddress(private.PublicKey)), To: x402.EVMAddress([20]byte{19: 0xaa}),
		Value: money.New(10000), ValidBefore: uint64(time.Now().Unix()) + 60, Nonce: x402.Nonce{1},
	}
	signature := must(x402test.Sign(a.Digest(network.Assets[0], network.ChainID), private))
	payload := must(x402.Offer{Version: 2, Accepted: requirement}.Payload(a, signature))
	return pay.Exchange{Payload: payload, Requirement: requirement}, signature
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func newClient(t *testing.T, o facilitator.Options) *facilitator.Client {
	t.Helper()
	c := must(facilitator.New(o))
	t.Cleanup(c.Close)
	return c
}

func answering(t *testing.T, status int, body string) *facilitator.Client {
	t.Helper()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	return newClient(t, facilitator.Options{URL: url, Key: key})
}

func TestNewRefusesBadSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, key, setting string }{
		{"", "", "PURSER_FACILITATOR_URL"},
		{"x402.org/facilitator", "", "PURSER_FACILITATOR_URL"},
		{"ftp://x402.org", "", "PURSER_FACILITATOR_URL"},
		{"https://", "", "PURSER_FACILITATOR_URL"},
		{"https://x402.org/#top", "", "PURSER_FACILITATOR_URL"},
		{"https://hush:%zz@x402.org", "", "PURSER_FACILITATOR_URL"},
		{"https://hush:hush@x402.org", "k", "PURSER_FACILITATOR_KEY"},
		{"https://x402.org", "line\nbreak", "PURSER_FACILITATOR_KEY"},
		{"https://x402.org", "with space", "PURSER_FACILITATOR_KEY"},
	} {
		_, err := facilitator.New(facilitator.Options{URL: c.url, Key: c.key})
		if err == nil || !strings.Contains(err.Error(), c.setting) {
			t.Errorf("%q, key %q: error %v does not name %s", c.url, c.key, err, c.setting)
		} else if strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "break") {
			t.Errorf("error repeats a secret: %v", err)
		}
	}
}

func TestPlainHTTPIsWarnedAbout(t *testing.T) {
	t.Parallel()
	for url, warned := range map[string]bool{
		"http://facilitator.example": true, "https://facilitator.example": false, "http://127.0.0.1:1": false,
		"http://localhost": false, "http://[::1]:8": false,
	} {
		var logged bytes.Buffer
		newClient(t, facilitator.Options{URL: url, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		if got := strings.Contains(logged.String(), "plain http"); got != warned {
			t.Errorf("%s: warned %v, want %v", url, got, warned)
		}
	}
}

func TestRequestIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	x, _ := exchange(t)
	type request struct {
		method, path, authorization, contentType string
		body                                     []byte
	}
	seen := make(chan request, 2)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- request{r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), r.Header.Get("Content-Type"), body}
		_, _ = io.WriteString(w, `{"isValid":true,"success":true,"transaction":"","network":"base"}`)
	})
	c := newClient(t, facilitator.Options{URL: url + "/platform/x402/?tenant=a", Key: key})
	want := fmt.Sprintf(`{"x402Version":2,"paymentPayload":%s,"paymentRequirements":%s}`, x.Payload.JSON, x.Requirement)
	must(c.Verify(t.Context(), x))
	must(c.Settle(t.Context(), x))
	for _, path := range []string{"/platform/x402/verify?tenant=a", "/platform/x402/settle?tenant=a"} {
		got := <-seen
		if got.method != "POST" || got.path != path || got.authorization != "Bearer "+key || got.contentType != "application/json" {
			t.Errorf("request %s %s, Authorization %q, Content-Type %q", got.method, got.path, got.authorization, got.contentType)
		}
		if string(got.body) != want {
			t.Errorf("body\n%s\nwant\n%s", got.body, want)
		}
	}
}

func TestVerifyAnswers(t *testing.T) {
	t.Parallel()
	x, _ := exchange(t)
	for _, c := range []struct {
		name, body string
		status     int
		want       pay.VerifyAnswer
		fails      string
	}{
		{name: "valid", status: 200, body: `{"isValid":true,"payer":"0xabc"}`, want: pay.VerifyAnswer{Valid: true, Payer: "0xabc"}},
		{name: "refusal as a 200", status: 200, body: `{"isValid":false,"invalidReason":"insufficient_funds","payer":null}`, want: pay.VerifyAnswer{Reason: "insufficient_funds"}},
		{name: "refusal as a 400", status: 400, body: `{"isValid":false,"invalidReason":"amount_too_low"}`, want: pay.VerifyAnswer{Reason: "amount_too_low"}},
		{name: "refusal as a 500", status: 500, body: `{"isValid":false}`, want: pay.VerifyAnswer{}},
		{name: "valid as a 500", status: 500, body: `{"isValid":true}`, want: pay.VerifyAnswer{Valid: true}},
		{name: "verdict of the other call", status: 200, body: `{"success":true}`, fails: "isValid"},
		{name: "no verdict", status: 400, body: `{"errorType":"x","errorMessage":"description too long"}`, fails: "400 Bad Request without a verdict: no true or false isValid: \"description too long\""},
		{name: "verdict as text", status: 200, body: `{"isValid":"true"}`, fails: "no true or false isValid"},
		{name: "verdict as number", status: 200, body: `{"isValid":1}`, fails: "no true or false isValid"},
		{name: "verdict null", status: 200, body: `{"isValid":null}`, fails: "no true or false isValid"},
		{name: "other letter case", status: 200, body: `{"isvalid":true}`, fails: "no true or false isValid"},
		{name: "two verdicts", status: 200, body: `{"isValid":false,"isValid":true}`, fails: "twice"},
		{name: "two verdicts, one escaped", status: 200, body: `{"isValid":false,"is\u0056alid":true}`, fails: "twice"},
		{name: "reason of another type", status: 200, body: `{"isValid":false,"invalidReason":{"code":1}}`, fails: "invalidReason"},
		{name: "list", status: 200, body: `[{"isValid":true}]`, fails: "not a JSON object"},
		{name: "HTML", status: 502, body: `<html>Bad gateway</html>`, fails: "502 Bad Gateway without a verdict: not JSON"},
		{name: "empty", status: 200, body: ``, fails: "not JSON"},
		{name: "cut off", status: 200, body: `{"isValid":true`, fails: "not JSON"},
		{name: "more behind it", status: 200, body: `{"isValid":true}{"isValid":false}`, fails: "not JSON"},
		{name: "too big", status: 200, body: `{"isValid":true,"x":"` + strings.Repeat("x", 256<<10) + `"}`, fails: "over 256 KiB"},
		{name: "unauthorized", status: 401, body: `{"error":"bad ` + key + `"}`, fails: `401 Unauthorized without a verdict: no true or false isValid: "bad [redacted]"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := answering(t, c.status, c.body).Verify(t.Context(), x)
			checkError(t, err, c.fails)
			if c.fails == "" && !json.Valid(got.Raw) {
				t.Errorf("words are not JSON: %s", got.Raw)
			}
			got.Raw = nil
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("answer %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestSettleAnswers(t *testing.T) {
	t.Parallel()
	x, _ := exchange(t)
	transaction := "0x" + strings.Repeat("ab", 32)
	amount := money.New(10000)
	for _, c := range []struct {
		name, body string
		status     int
		want       pay.SettleAnswer
		fails      string
	}{
		{
			name: "success", status: 200, body: `{"success":true,"transaction":"` + transaction + `","network":"base","payer":"0xabc","amount":"10000"}`,
			want: pay.SettleAnswer{Success: true, Transaction: transaction, Network: "base", Payer: "0xabc", Amount: &amount},
		},
		{name: "success as a 500", status: 500, body: `{"success":true,"transaction":"` + transaction + `"}`, want: pay.SettleAnswer{Success: true, Transaction: transaction}},
		{name: "amount as a number", status: 200, body: `{"success":true,"amount":10000}`, want: pay.SettleAnswer{Success: true, Amount: &amount}},
		{name: "refusal as a 400", status: 400, body: `{"success":false,"errorReason":"insufficient_funds","transaction":""}`, want: pay.SettleAnswer{Reason: "insufficient_funds"}},
		{name: "refusal as a 500", status: 500, body: `{"success":false,"errorReason":"x"}`, want: pay.SettleAnswer{Reason: "x"}},
		{name: "pending", status: 200, body: `{"success":false,"errorReason":"settlement_pending","transaction":"` + transaction + `"}`, want: pay.SettleAnswer{Reason: "settlement_pending", Transaction: transaction}},
		{name: "success with a reason", status: 200, body: `{"success":true,"errorReason":"but"}`, want: pay.SettleAnswer{Success: true, Reason: "but"}},
		{name: "success without a transaction", status: 200, body: `{"success":true}`, want: pay.SettleAnswer{Success: true}},
		{name: "success with an odd transaction", status: 200, body: `{"success":true,"transaction":"0x12"}`, want: pay.SettleAnswer{Success: true, Transaction: "0x12"}},
		{name: "transaction of another type", status: 200, body: `{"success":false,"errorReason":"insufficient_funds","transaction":{"hash":"` + transaction + `"}}`, fails: "transaction is not a string"},
		{name: "amount not an amount", status: 200, body: `{"success":true,"amount":"1.5"}`, fails: "amount"},
		{name: "amount of another type", status: 200, body: `{"success":true,"amount":true}`, fails: "amount"},
		{name: "verdict of the other call", status: 200, body: `{"isValid":true}`, fails: "success"},
		{name: "server error", status: 500, body: `{"error":"boom"}`, fails: `500 Internal Server Error without a verdict: no true or false success: "boom"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := answering(t, c.status, c.body).Settle(t.Context(), x)
			checkError(t, err, c.fails)
			if (got.Amount == nil) != (c.want.Amount == nil) || got.Amount != nil && *got.Amount != *c.want.Amount {
				t.Errorf("amount %v, want %v", got.Amount, c.want.Amount)
			}
			got.Raw, got.Amount, c.want.Amount = nil, nil, nil
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("answer %+v, want %+v", got, c.want)
			}
		})
	}
}

// checkError wants an error that has the words, is an *Error, and does not claim that nothing was sent.
func checkError(t *testing.T, err error, words string) {
	t.Helper()
	if words == "" {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Fatalf("error %v, want one with %q", err, words)
	}
	if _, ok := errors.AsType[*facilitator.Error](err); !ok {
		t.Errorf("%T is not a *facilitator.Error", err)
	}
	if errors.Is(err, pay.ErrNotSent) {
		t.Errorf("%v claims that nothing was sent", err)
	}
	if strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(err.Error(), key) {
		t.Errorf("error names the URL or the key: %v", err)
	}
}

func TestWordsAreShortAndWithoutSecrets(t *testing.T) {
	t.Parallel()
	x, signature := exchange(t)
	text := signature.String()
	r, s := strings.ToUpper(text[2:66]), text[66:130]
	for name, member := range map[string]string{
		"signature": text, "r as argument": "0x" + r, "calldata": "0xe3ee160e" + text[130:] + text[2:66] + s,
		"key": "Bearer " + key, "payment header": x.Payload.Header(),
		"long": strings.Repeat("é<", 5000) + s,
	} {
		quoted := must(json.Marshal(member))
		body := fmt.Sprintf(`{"success":false,"errorReason":%[1]s,"transaction":"","errorMessage":%[1]s,"deep":[{"args":[%[1]s]}],%[1]s:1}`, quoted)
		got, err := answering(t, 200, body).Settle(t.Context(), x)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		keptMembers := strings.ToLower(string(got.Raw) + got.Reason)
		for _, secret := range []string{text[2:66], s, key, x.Payload.Header()} {
			if strings.Contains(keptMembers, strings.ToLower(secret)) {
				t.Errorf("%s: a secret is in %s", name, keptMembers)
			}
		}
		if len(got.Raw) > 4<<10 || len(got.Reason) > 1100 || !json.Valid(got.Raw) {
			t.Errorf("%s: %d bytes of words, %d of reason, valid %v", name, len(got.Raw), len(got.Reason), json.Valid(got.Raw))
		}
		if !strings.Contains(string(got.Raw), `"success":false`) {
			t.Errorf("%s: the verdict is not in %s", name, got.Raw)
		}
	}
}

func TestWordsOfAHugeAnswer(t *testing.T) {
	t.Parallel()
	x, _ := exchange(t)
	body := `{"isValid":false,"invalidReason":"` + strings.Repeat(`\u0001`, 3000) + `","invalidMessage":"` + strings.Repeat("<", 3000) +
		`","error":"` + strings.Repeat(`\u0002`, 900) + `","numbers":[` + strings.Repeat("1,", 9000) + `1]}`
	got := must(answering(t, 400, body).Verify(t.Context(), x))
	if len(got.Raw) > 4<<10 || !json.Valid(got.Raw) || !strings.Contains(string(got.Raw), `"truncated":true`) {
		t.Errorf("%d bytes of words: %s", len(got.Raw), got.Raw)
	}
}

func TestUnreadablePaymentIsNotSent(t *testing.T) {
	t.Parallel()
	x, _ := exchange(t)
	var calls atomic.Int32
	c := newClient(t, facilitator.Options{URL: serve(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })})
	for name, bad := range map[string]pay.Exchange{
		"no payload":      {Requirement: x.Requirement},
		"no requirement":  {Payload: x.Payload},
		"bad requirement": {Payload: x.Payload, Requirement: json.RawMessage(`{"a":1},"b":2`)},
	} {
		if _, err := c.Settle(t.Context(), bad); !errors.Is(err, pay.ErrNotSent) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status      int
		body, fails string
	}{
		{200, `{"kinds":[{"x402Version":2,"scheme":"exact","network":"eip155:8453"}],"extensions":[],"signers":{}}`, ""},
		{200, `{"kinds":[]}`, ""},
		{200, `{}`, "kinds"},
		{200, `{"kinds":"many"}`, "kinds"},
		{200, `<html>`, "kinds"},
		{401, `{"kinds":[]}`, "401 Unauthorized"},
		{503, ``, "503 Service Unavailable"},
	} {
		checkError(t, answering(t, c.status, c.body).Probe(t.Context()), c.fails)
	}
}

// must returns a value of a set-up that cannot fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
