package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// RPCFault makes an RPC fail while purser looks for evidence. Its stages follow one another, and
// recovery runs in each.
type RPCFault struct {
	Name   string
	Stages []func(context.Context, *RPC) error
}

// Blind reports whether the fault leaves no evidence at all. The other faults show parts of the
// truth.
func (f RPCFault) Blind() bool {
	return f.Name != Forgets.Name && f.Name != NoSafeTag.Name && f.Name != NoLogs.Name
}

// showing returns a stage that shows a view.
func showing(v View) func(context.Context, *RPC) error {
	return func(_ context.Context, p *RPC) error {
		p.Show(v)
		return nil
	}
}

// farBehind is a number of blocks that no sandbox makes after its payments.
const farBehind = 10_000

// Faults of an RPC.
var (
	Lags = RPCFault{"lags behind", []func(context.Context, *RPC) error{showing(View{Behind: farBehind})}}

	OtherChain = RPCFault{"answers for another chain id", []func(context.Context, *RPC) error{showing(View{
		Alter: altered("eth_chainId", func(RPCCall, json.RawMessage) json.RawMessage { return quantity(1) }),
	})}}
	OtherToken = RPCFault{"has another token at the address", []func(context.Context, *RPC) error{showing(View{
		Alter: altered("eth_call", func(c RPCCall, result json.RawMessage) json.RawMessage {
			if strings.Contains(string(body(c.Params)), "3644e515") { // DOMAIN_SEPARATOR()
				return json.RawMessage(`"` + inventTransaction() + `"`)
			}
			return result
		}),
	})}}
	OtherGenesis = RPCFault{"began with another block", []func(context.Context, *RPC) error{showing(View{
		Alter: altered("eth_getBlockByNumber", func(c RPCCall, result json.RawMessage) json.RawMessage {
			if len(c.Params) == 0 || string(c.Params[0]) != `"0x0"` {
				return result
			}
			var block map[string]json.RawMessage
			if json.Unmarshal(result, &block) != nil {
				return result
			}
			block["hash"] = json.RawMessage(`"` + inventTransaction() + `"`)
			text, err := json.Marshal(block)
			if err != nil {
				return result
			}
			return text
		}),
	})}}
	Refusing = RPCFault{"answers with errors", []func(context.Context, *RPC) error{showing(View{
		Fail: func(w http.ResponseWriter, _ *http.Request) {
			jsonAnswer(http.StatusOK, errorAnswer(json.RawMessage("1"), "internal error")).writeTo(w)
		},
	})}}
	Overloaded = RPCFault{"answers 429", []func(context.Context, *RPC) error{showing(View{
		Fail: func(w http.ResponseWriter, _ *http.Request) { Answer{Status: http.StatusTooManyRequests}.writeTo(w) },
	})}}
	Silent  = RPCFault{"never answers", []func(context.Context, *RPC) error{showing(View{Fail: hang})}}
	Babbles = RPCFault{"answers nonsense", []func(context.Context, *RPC) error{showing(View{
		Fail: func(w http.ResponseWriter, _ *http.Request) {
			Answer{Status: http.StatusOK, Body: []byte(`{"jsonrpc":"2.0","id":1,"result":{"number":[]`)}.writeTo(w)
		},
	})}}
	// FromTheFuture shows a safe block later than any authorization's validity, and no used
	// authorization.
	FromTheFuture = RPCFault{"answers from the future", []func(context.Context, *RPC) error{showing(View{
		Alter: func(c RPCCall, result json.RawMessage) json.RawMessage { return unused(c, later(time.Hour)(c, result)) },
	})}}
	// OnAFork shows a fork of the known chain, on which no payment was made.
	OnAFork   = RPCFault{"is on a fork", []func(context.Context, *RPC) error{showing(View{Fork: 1})}}
	NoLogs    = RPCFault{"truncates its logs", []func(context.Context, *RPC) error{showing(View{NoLogs: true})}}
	NoSafeTag = RPCFault{"knows no safe block", []func(context.Context, *RPC) error{showing(View{NoSafe: true})}}
	// Forgets shows a transfer in a block that is not safe yet. After a reorganization, that block
	// is gone.
	Forgets = RPCFault{"forgets a block", []func(context.Context, *RPC) error{
		showing(View{SafeNotAfter: 1}),
		showing(View{NotAfter: 1}),
	}}
)

// altered changes the results of one method.
func altered(method string, change func(RPCCall, json.RawMessage) json.RawMessage) func(RPCCall, json.RawMessage) json.RawMessage {
	return func(c RPCCall, result json.RawMessage) json.RawMessage {
		if c.Method != method {
			return result
		}
		return change(c, result)
	}
}

// Enter starts a stage of the fault.
func (f RPCFault) Enter(ctx context.Context, p *RPC, stage int) error {
	if err := f.Stages[stage](ctx, p); err != nil {
		return fmt.Errorf("the RPC %s: %w", f.Name, err)
	}
	return nil
}
