package hostile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
)

// View limits and distorts what an RPC shows of the chain. The zero value shows all of it.
type View struct {
	// Behind is the number of newest blocks that are hidden.
	Behind uint64
	// NotAfter is the newest block that is shown. Default: the chain's newest.
	NotAfter uint64
	// SafeNotAfter is the newest block that the tags safe and finalized name. Default: the newest
	// shown.
	SafeNotAfter uint64
	// NoSafe rejects the tag safe.
	NoSafe bool
	// NoLogs leaves out all logs.
	NoLogs bool
	// Fork shows another chain from this block on, on which no authorization was used. 0 means no
	// fork.
	Fork uint64
	// Alter, when set, changes the result of a call.
	Alter func(asked message, result json.RawMessage) json.RawMessage
	// Ahead sets the clock of the Date headers forward, or back when negative.
	Ahead time.Duration
	// Fail, when set, answers in place of the chain.
	Fail func(w http.ResponseWriter, r *http.Request)
}

// RPC stands in front of an honest JSON-RPC.
type RPC struct {
	client *http.Client
	now    func() time.Time // for the Date header

	mu     sync.Mutex
	target string
	view   View
}

// NewRPC returns an RPC in front of the one at target. It first shows everything.
func NewRPC(target string) *RPC {
	return &RPC{target: target, now: time.Now, client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}
}

// Show changes what the RPC shows.
func (p *RPC) Show(v View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.view = v
}

// Lead makes the RPC answer for the chain of another RPC.
func (p *RPC) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// message is a JSON-RPC request or answer.
type message struct {
	Version string            `json:"jsonrpc"`
	ID      json.RawMessage   `json:"id"`
	Method  string            `json:"method,omitempty"`
	Params  []json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage   `json:"result,omitempty"`
	Error   json.RawMessage   `json:"error,omitempty"`
}

// ServeHTTP answers a call through the view. It does not support batches.
func (p *RPC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	view := p.view
	p.mu.Unlock()
	stamp(w, p.now().Add(view.Ahead))
	var asked message
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&asked); err != nil {
		http.Error(w, "not a call", http.StatusBadRequest)
		return
	}
	if view.Fail != nil {
		view.Fail(w, r)
		return
	}
	out, err := p.answer(r.Context(), view, asked)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	jsonAnswer(http.StatusOK, out).writeTo(w)
}

func errorAnswer(id json.RawMessage, text string) message {
	return message{Version: "2.0", ID: id, Error: fmt.Appendf(nil, `{"code":-32000,"message":%q}`, text)}
}

// answer asks the chain, and applies the view to question and answer.
func (p *RPC) answer(ctx context.Context, view View, asked message) (message, error) {
	if view.NoSafe && bytes.Contains(asked.text(), []byte(`"safe"`)) {
		return errorAnswer(asked.ID, "unknown block tag"), nil
	}
	top, limited := uint64(math.MaxUint64), view.Behind|view.NotAfter|view.SafeNotAfter != 0
	if limited {
		newest, _, err := p.forward(ctx, "eth_getBlockByNumber", json.RawMessage(`"latest"`), json.RawMessage("false"))
		if err != nil {
			return message{}, err
		}
		top = numberOf(newest)
		top -= min(view.Behind, top)
		top = min(top, cmp.Or(view.NotAfter, top))
		shown, safe := quoted(top), quoted(min(top, cmp.Or(view.SafeNotAfter, top)))
		tags := strings.NewReplacer(`"latest"`, shown, `"pending"`, shown, `"safe"`, safe, `"finalized"`, safe)
		for i, param := range asked.Params {
			asked.Params[i] = json.RawMessage(tags.Replace(string(param)))
		}
	}
	if view.Fork != 0 {
		p.unfork(ctx, asked.Params)
	}
	result, refusal, err := p.forward(ctx, asked.Method, asked.Params...)
	if err != nil {
		return message{}, err
	}
	out := message{Version: "2.0", ID: asked.ID, Result: result, Error: refusal}
	if limited && p.hidden(ctx, asked, out.Result, top) {
		return errorAnswer(asked.ID, "header not found"), nil
	}
	if out.Error != nil {
		return out, nil
	}
	switch {
	case asked.Method == "eth_blockNumber" && limited:
		out.Result = json.RawMessage(quoted(top))
	case asked.Method == "eth_getLogs":
		out.Result = visibleLogs(out.Result, top, view.NoLogs || view.Fork != 0)
	case asked.Method == "eth_getBlockByNumber" && view.Fork != 0 && numberOf(out.Result) >= view.Fork:
		out.Result = otherHash(out.Result)
	}
	if view.Fork != 0 {
		out.Result = unused(asked, out.Result)
	}
	if view.Alter != nil {
		out.Result = view.Alter(asked, out.Result)
	}
	return out, nil
}

// text returns the parameters of a call as JSON.
func (m message) text() []byte {
	text, _ := json.Marshal(m.Params) // cannot fail: it was JSON before
	return text
}

// quoted returns a block's number as JSON.
func quoted(n uint64) string { return strconv.Quote(hexutil.EncodeUint64(n)) }

// numberOf returns the number of a block, or of the block of a log; 0 without one.
func numberOf(result json.RawMessage) uint64 {
	var seen struct{ Number, BlockNumber hexutil.Uint64 }
	_ = json.Unmarshal(result, &seen)
	return uint64(max(seen.Number, seen.BlockNumber))
}

// hidden reports whether a call is about a hidden block.
func (p *RPC) hidden(ctx context.Context, asked message, result json.RawMessage, top uint64) bool {
	switch asked.Method {
	case "eth_getBlockByNumber":
		return numberOf(result) > top
	case "eth_call":
		hash := blockHashOf(asked.Params[len(asked.Params)-1])
		if hash == nil {
			return false
		}
		block, _, err := p.forward(ctx, "eth_getBlockByHash", hash, json.RawMessage("false"))
		return err != nil || numberOf(block) > top
	}
	return false
}

// blockHashOf returns the hash of the block that a parameter names, or nil.
func blockHashOf(param json.RawMessage) json.RawMessage {
	var at struct{ BlockHash json.RawMessage }
	_ = json.Unmarshal(param, &at) // not every parameter is an object
	return at.BlockHash
}

// visibleLogs removes logs of hidden blocks, or all.
func visibleLogs(result json.RawMessage, top uint64, none bool) json.RawMessage {
	var logs []json.RawMessage
	_ = json.Unmarshal(result, &logs) // an honest answer can be read
	shown, _ := json.Marshal(slices.DeleteFunc(logs, func(l json.RawMessage) bool { return none || numberOf(l) > top }))
	return shown
}

// forward calls the honest RPC.
func (p *RPC) forward(ctx context.Context, method string, params ...json.RawMessage) (result, refusal json.RawMessage, err error) {
	asked := message{Version: "2.0", ID: json.RawMessage("1"), Method: method, Params: params}
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(jsonAnswer(0, asked).Body))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	var got struct{ Result, Error json.RawMessage }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&got); err != nil {
		return nil, nil, err
	}
	if got.Result == nil && got.Error == nil {
		got.Result = json.RawMessage("null")
	}
	return got.Result, got.Error, nil
}
