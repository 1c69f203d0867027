package simulation

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
)

// toolMix says which orders are calls of MCP. It has draws of its own, so that the other ones of a seed stay.
type toolMix struct {
	tools   int // of 100 orders at the proxy, those that are calls of tools
	dialect int // that the first order's seller speaks; the next one speaks the next
	streams int // of 100 answers, those that are streams
	cuts    int // of 100 streams of paid calls, those that end before the answer
	resumes int // of 100 streams that were cut, those whose agent asks for the rest
}

func drawTools(luck *rand.Rand) toolMix {
	if luck.IntN(2) == 0 {
		return toolMix{}
	}
	some := func() int { return []int{0, 50, 100}[luck.IntN(3)] }
	return toolMix{tools: 50 + 50*luck.IntN(2), dialect: luck.IntN(len(dialects)), streams: some(), cuts: some(), resumes: some()}
}

// toolPath is the endpoint of all tools. Which order a call is about stands in its arguments.
const toolPath = "/mcp"

// dialects lists the places in which sellers put terms and take payments.
var dialects = []string{"object", "text", "cloudflare", "error", "binding"}

// toolCall is a call of a tool, as its seller reads it.
type toolCall struct {
	ID     json.RawMessage `json:"id"`
	Params struct {
		Arguments struct {
			Order int `json:"order"`
		} `json:"arguments"`
		Meta map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`

	dialect   string
	paid, mpp bool
}

type toolKey struct{}

// toolOf returns the call that a request makes; nil: it is none.
func toolOf(r *http.Request) *toolCall {
	c, _ := r.Context().Value(toolKey{}).(*toolCall)
	return c
}

// readTool reads a call of a tool, and returns its payment as a header's value.
func (v *way) readTool(r *http.Request) (*http.Request, string, error) {
	var c toolCall
	if err := json.Unmarshal(bodyOf(r), &c); err != nil {
		return r, "", err
	}
	c.dialect = dialects[(v.mix.dialect+c.Params.Arguments.Order)%len(dialects)]
	var err error
	credential, value := c.Params.Meta["x402/payment"], ""
	if text := c.Params.Meta["org.paymentauth/credential"]; text != nil {
		c.paid, c.mpp, value = true, true, paymentOf+base64.RawURLEncoding.EncodeToString(text)
	} else if c.paid = credential != nil; c.paid {
		value = base64.StdEncoding.EncodeToString(credential)
		if c.dialect == "cloudflare" {
			err = json.Unmarshal(credential, &value)
		}
	}
	return r.WithContext(context.WithValue(r.Context(), toolKey{}, &c)), value, err
}

// askTool asks for money in the answer to a call.
func (v *way) askTool(r *http.Request, order int, reason string, luck *rand.Rand) *http.Response {
	c := toolOf(r)
	terms, _ := base64.StdEncoding.DecodeString(v.mix.challengeOf(order, "mcp://tool/buy", reason))
	result := map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": string(terms)}}}
	switch c.dialect {
	case "object":
		result["structuredContent"] = json.RawMessage(terms)
	case "cloudflare":
		result["content"], result["_meta"] = []any{}, map[string]any{"x402/error": json.RawMessage(terms)}
	case "binding":
		result = map[string]any{"resultType": "payment_required", "paymentRequired": json.RawMessage(terms)}
	case "error":
		return v.answerTool(r, luck, "error", map[string]any{"code": 402, "message": reason, "data": json.RawMessage(terms)})
	}
	return v.answerTool(r, luck, "result", result)
}

// deliverTool gives a call its result.
func (v *way) deliverTool(r *http.Request, order int, transaction string, luck *rand.Rand) *http.Response {
	receipt, _ := base64.StdEncoding.DecodeString(receiptOf(transaction))
	meta := map[string]any{"x402/payment-response": json.RawMessage(receipt)}
	if paysByMPP(r) {
		receipt, _ = base64.RawURLEncoding.DecodeString(receiptMPP(transaction))
		meta = map[string]any{"org.paymentauth/receipt": json.RawMessage(receipt)}
	}
	return v.answerTool(r, luck, "result", map[string]any{
		"content": []any{map[string]any{"type": "text", "text": fmt.Sprintf("goods %d", order)}}, "_meta": meta,
	})
}

// failTool has a tool say that it has failed, or the session be over.
func (v *way) failTool(r *http.Request, luck *rand.Rand) *http.Response {
	if luck.IntN(2) == 0 {
		return response(r, http.StatusNotFound, "no such session")
	}
	return v.answerTool(r, luck, "result", map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": "out of order"}}})
}

// answerTool writes the answer to a call as JSON or as a stream, which may be cut off before it.
func (v *way) answerTool(r *http.Request, luck *rand.Rand, member string, value any) *http.Response {
	c := toolOf(r)
	message, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.ID, member: value})
	if luck.IntN(100) >= v.mix.streams {
		return response(r, http.StatusOK, string(message), "Content-Type", "application/json")
	}
	v.sellers.mu.Lock()
	defer v.sellers.mu.Unlock()
	event := fmt.Sprint("event-", len(v.sellers.cut))
	v.sellers.cut = append(v.sellers.cut, string(message))
	stream := "id: " + event + "\ndata: \n\n"
	if luck.IntN(2) == 0 {
		stream += ": at work\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n\n"
	}
	if !c.paid || v.calm() || luck.IntN(100) >= v.mix.cuts {
		stream += "data: " + string(message) + "\n\n"
	} else {
		v.conductor.say("the stream of order %d is cut off", c.Params.Arguments.Order)
	}
	return response(r, http.StatusOK, stream, "Content-Type", "text/event-stream")
}

// rest goes on with a stream behind an event.
func (v *way) rest(r *http.Request) *http.Response {
	v.sellers.mu.Lock()
	defer v.sellers.mu.Unlock()
	at := -1
	_, _ = fmt.Sscanf(r.Header.Get("Last-Event-Id"), "event-%d", &at)
	if at < 0 || at >= len(v.sellers.cut) {
		return response(r, http.StatusNotFound, "no such event")
	}
	return response(r, http.StatusOK, "id: event-"+fmt.Sprint(at)+"\ndata: "+v.sellers.cut[at]+"\n\n", "Content-Type", "text/event-stream")
}

var errCut = errors.New("the stream ended without an answer")

// callTool makes one call of a tool, as an agent does: its id is new, and so may be its session. An agent whose stream
// was cut may ask for the rest of it.
func (w *world) callTool(ctx context.Context, a *attempt) outcome {
	o := a.order
	id := fmt.Sprint(100*o.number + o.tries)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"buy","arguments":{"order":%d},"_meta":{"progressToken":%s}}}`, id, o.number, id)
	header := http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-06-18"},
	}
	if o.number%3 > 0 {
		header.Set("Mcp-Session-Id", fmt.Sprint("session-", o.number, "-", o.tries/2))
	}
	got, last := w.exchange(ctx, a, http.MethodPost, body, header, id)
	if errors.Is(got.err, errCut) && last != "" && o.resumes {
		w.conductor.say("order %d is resumed behind %s", o.number, last)
		header.Set("Accept", "text/event-stream")
		header.Set("Last-Event-Id", last)
		got, _ = w.exchange(ctx, a, http.MethodGet, "", header, id)
	}
	return got
}

// exchange sends one request to the endpoint of tools, and reads the answer to the call of an id. It returns the id of the
// last event too.
func (w *world) exchange(ctx context.Context, a *attempt, method, body string, header http.Header, id string) (got outcome, last string) {
	o, n := a.order, a.node
	call := proxy.NewCall(pay.Key{ID: o.key.ID}, "", o.idem)
	call.ReadKey = func(ctx context.Context) (pay.Key, error) { return n.store.Key(ctx, o.key.ID) }
	r, err := http.NewRequestWithContext(ctx, method, seller+o.path, bytes.NewReader([]byte(body)))
	if err != nil {
		return outcome{err: err}, ""
	}
	r.Header = header.Clone()
	call.Ask(r.Header)
	resp, err := n.door.RoundTrip(r.WithContext(proxy.WithCall(ctx, call)))
	if err != nil {
		call.Finish(false)
		return outcome{err: err}, ""
	}
	if ctx.Err() != nil || n.isDead() || w.isDeaf(a) { // no piece of a stream is acknowledged
		_ = resp.Body.Close()
		call.Finish(false)
		return outcome{err: errLost}, ""
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	call.Finish(err == nil)
	if err != nil {
		return outcome{err: err}, ""
	}
	got = outcome{status: resp.StatusCode, reason: resp.Header.Get("Purser-Declined") + resp.Header.Get("Purser-Error")}
	if resp.StatusCode != http.StatusOK {
		return got, ""
	}
	messages := []string{string(text)}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		messages = nil
		for line := range strings.Lines(string(text)) {
			if data, is := strings.CutPrefix(line, "data: "); is {
				messages = append(messages, data)
			}
			if event, is := strings.CutPrefix(line, "id: "); is {
				last = strings.TrimSpace(event)
			}
		}
	}
	for _, message := range messages {
		var answer struct {
			ID     json.RawMessage `json:"id"`
			Error  json.RawMessage `json:"error"`
			Result struct {
				IsError bool `json:"isError"`
				Meta    struct {
					Declined struct{ Reason string } `json:"purser/declined"`
				} `json:"_meta"`
			} `json:"result"`
		}
		if json.Unmarshal([]byte(message), &answer) != nil || string(answer.ID) != id {
			continue
		}
		if got.body = message; answer.Error != nil || answer.Result.IsError || strings.Contains(message, "payment_required") {
			got.status = http.StatusBadGateway
		}
		if got.reason == "" { // behind other messages
			got.reason = answer.Result.Meta.Declined.Reason
		}
		if strings.Contains(message, "accepts") || strings.Contains(message, "challenges") {
			w.termsTold(o, message)
		}
		return got, last
	}
	return outcome{err: errCut}, last
}

// termsTold checks that terms reach an agent only while no payload of its order has left that may move money: an agent
// that pays by itself would pay a second time. A purser whose clock jumps, or whose backup is restored, does not know
// all that has left. A revoked key has no payments.
func (w *world) termsTold(o *order, message string) {
	if w.mix.jumps+w.mix.restores > 0 || w.people.revoked[o.key.ID] {
		return
	}
	w.mu.Lock()
	left := w.left[o.number]
	w.mu.Unlock()
	if left && w.mayMove(o.number, use{}) {
		w.violated("terms of order %d reached its agent behind a payment: %.300s", o.number, message)
	}
}
