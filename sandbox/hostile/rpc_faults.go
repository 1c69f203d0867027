package hostile

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// RPCFault makes an RPC fail while purser looks for evidence. It shows one view after another, and
// recovery runs with each.
type RPCFault struct {
	Name  string
	Views []View
}

// Blind reports whether the fault leaves no evidence at all. The other faults show parts of the
// truth.
func (f RPCFault) Blind() bool {
	return f.Name != Forgets.Name && f.Name != NoSafeTag.Name && f.Name != NoLogs.Name
}

// farBehind is a number of blocks that no sandbox makes after its payments.
const farBehind = 10_000

// Faults of an RPC.
var (
	Lags = RPCFault{"lags behind", []View{{Behind: farBehind}}}

	OtherChain = RPCFault{"answers for another chain id", []View{{Alter: func(asked message, result json.RawMessage) json.RawMessage {
		if asked.Method == "eth_chainId" {
			return json.RawMessage(`"0x1"`)
		}
		return result
	}}}}
	OtherToken = RPCFault{"has another token at the address", []View{{Alter: func(asked message, result json.RawMessage) json.RawMessage {
		if asked.Method == "eth_call" && bytes.Contains(asked.text(), []byte("3644e515")) { // DOMAIN_SEPARATOR()
			return json.RawMessage(strconv.Quote(inventTransaction()))
		}
		return result
	}}}}
	OtherGenesis = RPCFault{"began with another block", []View{{
		Alter: alteredBlock(func(name string) bool { return name == genesis }, "hash", func(json.RawMessage) json.RawMessage {
			return json.RawMessage(strconv.Quote(inventTransaction()))
		}),
	}}}
	Refusing = RPCFault{"answers with errors", []View{{
		Fail: func(w http.ResponseWriter, _ *http.Request) {
			jsonAnswer(http.StatusOK, errorAnswer(json.RawMessage("1"), "internal error")).writeTo(w)
		},
	}}}
	Overloaded = RPCFault{"answers 429", []View{{
		Fail: func(w http.ResponseWriter, _ *http.Request) { Answer{Status: http.StatusTooManyRequests}.writeTo(w) },
	}}}
	Silent  = RPCFault{"never answers", []View{{Fail: hang}}}
	Babbles = RPCFault{"answers nonsense", []View{{
		Fail: func(w http.ResponseWriter, _ *http.Request) {
			Answer{Status: http.StatusOK, Body: []byte(`{"jsonrpc":"2.0","id":1,"result":{"number":[]`)}.writeTo(w)
		},
	}}}
	// FromTheFuture shows a safe block later than any authorization's validity, and no used
	// authorization.
	FromTheFuture = RPCFault{"answers from the future", []View{{
		Alter: func(asked message, result json.RawMessage) json.RawMessage {
			return unused(asked, later(time.Hour)(asked, result))
		},
	}}}
	// OnAFork shows a fork of the known chain, on which no payment was made.
	OnAFork   = RPCFault{"is on a fork", []View{{Fork: 1}}}
	NoLogs    = RPCFault{"truncates its logs", []View{{NoLogs: true}}}
	NoSafeTag = RPCFault{"knows no safe block", []View{{NoSafe: true}}}
	// Forgets shows a transfer in a block that is not safe yet. After a reorganization, that block
	// is gone.
	Forgets = RPCFault{"forgets a block", []View{{SafeNotAfter: 1}, {NotAfter: 1}}}
)
