package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
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
	Alter func(c RPCCall, result json.RawMessage) json.RawMessage
	// Fail, when set, answers in place of the chain.
	Fail func(w http.ResponseWriter, r *http.Request)
}

// RPCCall holds the method and parameters of a call.
type RPCCall struct {
	Method string
	Params []json.RawMessage
}

// RPC stands in front of an honest JSON-RPC.
type RPC struct {
	client *http.Client

	mu     sync.Mutex
	target string
	view   View
}

// NewRPC returns an RPC in front of the one at target. It first shows everything.
func NewRPC(target string) *RPC {
	return &RPC{target: target, client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}
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

// Head returns the chain's newest block, shown or not.
func (p *RPC) Head(ctx context.Context) (uint64, error) {
	result, _, err := p.forward(ctx, "eth_blockNumber")
	if err != nil {
		return 0, err
	}
	return number(result)
}

func (p *RPC) close() { p.client.CloseIdleConnections() }

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
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		reset(w)
		return
	}
	if view.Fail != nil {
		view.Fail(w, r)
		return
	}
	var asked message
	if err := json.Unmarshal(body, &asked); err != nil {
		http.Error(w, "not a call", http.StatusBadRequest)
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
	var head uint64
	var err error
	if view.Behind != 0 || view.NotAfter != 0 || view.SafeNotAfter != 0 || asked.Method == "eth_blockNumber" || view.NoLogs {
		if head, err = p.Head(ctx); err != nil {
			return message{}, err
		}
	}
	top := head - min(view.Behind, head)
	if view.NotAfter != 0 {
		top = min(top, view.NotAfter)
	}
	safe := top
	if view.SafeNotAfter != 0 {
		safe = min(safe, view.SafeNotAfter)
	}
	if view.NoSafe && bytes.Contains(body(asked.Params), []byte(`"safe"`)) {
		return errorAnswer(asked.ID, "unknown block tag"), nil
	}
	if top < head || safe < head {
		asked.Params = within(asked.Params, top, safe)
	}
	if view.Fork != 0 {
		asked.Params = p.unfork(ctx, asked.Params)
	}
	out := message{Version: "2.0", ID: asked.ID}
	if out.Result, out.Error, err = p.forward(ctx, asked.Method, asked.Params...); err != nil {
		return message{}, err
	}
	if top < head && p.hidden(ctx, asked, out.Result, top) {
		return errorAnswer(asked.ID, "header not found"), nil
	}
	switch {
	case asked.Method == "eth_blockNumber":
		out.Result = quantity(top)
	case asked.Method == "eth_getLogs" && head != 0:
		out.Result = visibleLogs(out.Result, top, view.NoLogs)
	}
	if view.Fork != 0 && out.Error == nil {
		out.Result = unused(RPCCall{asked.Method, asked.Params}, fork(asked.Method, out.Result, view.Fork))
	}
	if view.Alter != nil && out.Error == nil {
		out.Result = view.Alter(RPCCall{asked.Method, asked.Params}, out.Result)
	}
	return out, nil
}

func body(params []json.RawMessage) []byte { return bytes.Join(toBytes(params), []byte(",")) }

func toBytes(params []json.RawMessage) [][]byte {
	out := make([][]byte, len(params))
	for i, one := range params {
		out[i] = one
	}
	return out
}

// within replaces the block tags in a call's parameters with the shown blocks.
func within(params []json.RawMessage, top, safe uint64) []json.RawMessage {
	out := make([]json.RawMessage, len(params))
	for i, param := range params {
		text := string(param)
		for tag, block := range map[string]uint64{"latest": top, "pending": top, "safe": safe, "finalized": safe} {
			text = strings.ReplaceAll(text, strconv.Quote(tag), string(quantity(block)))
		}
		out[i] = json.RawMessage(text)
	}
	return out
}

// hidden reports whether a call is about a hidden block.
func (p *RPC) hidden(ctx context.Context, asked message, result json.RawMessage, top uint64) bool {
	var block struct {
		Number string `json:"number"`
	}
	if asked.Method == "eth_getBlockByNumber" && json.Unmarshal(result, &block) == nil {
		n, err := number(json.RawMessage(strconv.Quote(block.Number)))
		return err == nil && n > top
	}
	if asked.Method != "eth_call" || len(asked.Params) < 2 {
		return false
	}
	var at struct {
		Hash json.RawMessage `json:"blockHash"`
	}
	if json.Unmarshal(asked.Params[1], &at) != nil || at.Hash == nil {
		return false
	}
	found, _, err := p.forward(ctx, "eth_getBlockByHash", at.Hash, json.RawMessage("false"))
	if err != nil || json.Unmarshal(found, &block) != nil {
		return true
	}
	n, err := number(json.RawMessage(strconv.Quote(block.Number)))
	return err != nil || n > top
}

// visibleLogs removes logs of hidden blocks.
func visibleLogs(result json.RawMessage, top uint64, none bool) json.RawMessage {
	var logs []json.RawMessage
	if json.Unmarshal(result, &logs) != nil {
		return result
	}
	shown := []json.RawMessage{}
	for _, one := range logs {
		var l struct {
			BlockNumber json.RawMessage `json:"blockNumber"`
		}
		if json.Unmarshal(one, &l) != nil {
			continue
		}
		if n, err := number(l.BlockNumber); err == nil && n <= top && !none {
			shown = append(shown, one)
		}
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return result
	}
	return text
}

// forward calls the honest RPC.
func (p *RPC) forward(ctx context.Context, method string, params ...json.RawMessage) (result, refusal json.RawMessage, err error) {
	if params == nil {
		params = []json.RawMessage{}
	}
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(text))
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

func quantity(n uint64) json.RawMessage {
	return json.RawMessage(`"0x` + strconv.FormatUint(n, 16) + `"`)
}

func number(raw json.RawMessage) (uint64, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
}
