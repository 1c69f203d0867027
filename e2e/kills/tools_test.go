package kills

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/x402"
)

// Purser is killed at each place that a call of MCP comes to. The agent calls again with another id. Every other call is
// answered by a stream.
func TestToolsAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	all := shoppers()
	s := all[slices.IndexFunc(all, func(s shopper) bool { return s.door() == hostile.ProxyDoor && !s.keyed() })]
	leadThrough(t, s, slices.Concat(
		once(failpoint.Decided, failpoint.Journaled, failpoint.Signed, failpoint.Departing),
		once(failpoint.ProxySending, failpoint.ProxyWritten, failpoint.ReceiptSeen, failpoint.ProxyAnswered),
		[]pass{{failpoint.ProxyPiece, 1}, {failpoint.ProxyPiece, 2}},
		once(failpoint.ProxyFinishing, failpoint.Recording, failpoint.Recorded, failpoint.Releasing, failpoint.Released),
	), func(w *world) {
		server := httptest.NewServer(&tools{seller: w.SellerURL})
		t.Cleanup(server.Close)
		w.tools = server.URL
	})
}

// tools is a server of MCP before a seller: what is bought by a call of its tool is an order of the seller's.
type tools struct {
	seller string
	calls  atomic.Int64
}

func (s *tools) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		ID     json.RawMessage `json:"id"`
		Params struct {
			Arguments struct{ Order uint64 }     `json:"arguments"`
			Meta      map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, fmt.Sprintf("%s/buy?id=%d", s.seller, call.Params.Arguments.Order), nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if payment := call.Params.Meta["x402/payment"]; payment != nil {
		ask.Header.Set(x402.HeaderSignature, base64.StdEncoding.EncodeToString(payment))
	}
	got, err := http.DefaultClient.Do(ask) //nolint:gosec // the test's own seller
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	goods, _ := io.ReadAll(got.Body)
	_ = got.Body.Close()
	result := map[string]any{"content": []any{map[string]string{"type": "text", "text": string(goods)}}}
	if terms, err := base64.StdEncoding.DecodeString(got.Header.Get(x402.HeaderRequired)); err == nil && len(terms) > 0 {
		result["isError"], result["structuredContent"] = true, json.RawMessage(terms)
	}
	if receipt, err := base64.StdEncoding.DecodeString(got.Header.Get(x402.HeaderResponse)); err == nil && len(receipt) > 0 {
		result["_meta"] = map[string]any{"x402/payment-response": json.RawMessage(receipt)}
	}
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": result})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if s.calls.Add(1)/2%2 == 0 {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "id: 1\ndata: \n\ndata: %s\n\n", answer)
}

// call calls the tool for an order once, through purser's proxy. Each call has another id.
func (w *world) call(ctx context.Context, c *hostile.Customer, o hostile.Order) hostile.Result {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at, err := url.Parse(w.purser.URL(""))
	if err != nil {
		return hostile.Result{Err: err}
	}
	at.User = url.User(c.Key)
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(at), DisableKeepAlives: true}}
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"buy","arguments":{"order":%d}}}`, w.called.Add(1), o.ID)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.tools+"/mcp", bytes.NewReader(body))
	if err != nil {
		return hostile.Result{Err: err}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	got, err := client.Do(r) //nolint:gosec // the test's own purser
	if err != nil {
		return hostile.Result{Err: err}
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		return hostile.Result{Status: got.StatusCode, Err: err}
	}
	for line := range strings.Lines(string(text)) {
		if data, is := strings.CutPrefix(line, "data: "); is {
			text = []byte(data)
		}
	}
	var answer struct {
		Result *struct {
			IsError bool `json:"isError"`
			Meta    struct {
				Declined struct{ Reason string } `json:"purser/declined"`
			} `json:"_meta"`
		} `json:"result"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Result == nil {
		return hostile.Result{Status: got.StatusCode, Err: fmt.Errorf("no result in %.200q: %w", text, err)}
	}
	said := hostile.Result{
		Status: got.StatusCode, Done: !answer.Result.IsError, Lured: strings.Contains(string(text), `"accepts"`),
		Reason: cmp.Or(got.Header.Get("Purser-Declined"), got.Header.Get("Purser-Error"), answer.Result.Meta.Declined.Reason),
	}
	if !said.Done {
		said.Status = http.StatusPaymentRequired
	}
	return said
}
