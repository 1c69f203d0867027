package mcpshop

import (
	"encoding/json"
	"strings"

	"github.com/purserpay/purser/sandbox/honest"
)

// Codes of JSON-RPC errors.
const (
	codeParse   = -32700
	codeRequest = -32600
	codeMethod  = -32601
	codeParams  = -32602
	codeInside  = -32603
	codeServer  = -32000
	codeSession = -32001
	codeHeader  = -32020
)

// Names of what is on sale, and of what is free.
const (
	Tool     = "get_weather"
	FreeTool = "hello"
	Prompt   = "forecast"
	// Resource is followed by the name of a city.
	Resource = "weather://"
)

// request is a message of a client.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name            string                     `json:"name"`
		URI             string                     `json:"uri"`
		Arguments       map[string]string          `json:"arguments"`
		ProtocolVersion string                     `json:"protocolVersion"`
		Meta            map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
}

// answerable reports whether the message is a request. Others are notifications and answers.
func (q request) answerable() bool { return len(q.ID) > 0 && q.Method != "" }

// sells reports whether the method can cost money.
func (q request) sells() bool {
	return q.Method == "tools/call" || q.Method == "resources/read" || q.Method == "prompts/get"
}

// subject is the name or the URI of what is asked for.
func (q request) subject() string {
	if q.Method == "resources/read" {
		return q.Params.URI
	}
	return q.Params.Name
}

// city returns the city that is asked for, if the request is for what is on sale.
func (q request) city() (string, bool) {
	switch {
	case q.Method == "tools/call" && q.Params.Name == Tool, q.Method == "prompts/get" && q.Params.Name == Prompt:
		return q.Params.Arguments["city"], true
	case q.Method == "resources/read":
		return strings.CutPrefix(q.Params.URI, Resource)
	}
	return "", false
}

type object = map[string]any

// serve answers a message.
func (v *visit) serve() {
	if !v.ask.answerable() {
		v.notified()
		return
	}
	if _, paid := v.ask.city(); paid {
		v.sell()
		return
	}
	switch schema := func(name string) object {
		return object{"type": "object", "properties": object{name: object{"type": "string"}}, "required": []string{name}}
	}; v.ask.Method {
	case "initialize":
		if session := v.open(); session != "" {
			v.w.Header().Set("Mcp-Session-Id", session)
		}
		v.result(object{
			"protocolVersion": spoken(v.ask.Params.ProtocolVersion), "capabilities": capabilities(), "serverInfo": info(),
		})
	case "server/discover":
		able := capabilities()
		if v.o.Dialect == Extension {
			able["extensions"] = object{extension: object{}}
		}
		v.result(v.fresh(object{"supportedVersions": []string{Modern}, "capabilities": able}))
	case "ping":
		v.result(object{})
	case "tools/list":
		v.result(v.fresh(object{"tools": []object{
			{"name": Tool, "description": "The weather in a city", "inputSchema": schema("city"), "_meta": v.priceTag()},
			{"name": FreeTool, "description": "A greeting", "inputSchema": schema("name")},
		}}))
	case "resources/list":
		v.result(v.fresh(object{"resources": []object{{"uri": Resource + "Kiel", "name": "weather"}}}))
	case "resources/templates/list":
		v.result(v.fresh(object{"resourceTemplates": []object{{"uriTemplate": Resource + "{city}", "name": "weather"}}}))
	case "prompts/list":
		v.result(v.fresh(object{"prompts": []object{{
			"name": Prompt, "arguments": []object{{"name": "city", "required": true}},
		}}}))
	case "tools/call":
		if v.ask.Params.Name != FreeTool {
			v.error(codeParams, "Unknown tool: "+v.ask.Params.Name)
			return
		}
		v.result(object{"content": words("hello " + v.ask.Params.Arguments["name"])})
	default:
		v.error(codeMethod, "Method not found")
	}
}

func capabilities() object {
	return object{"tools": object{}, "resources": object{}, "prompts": object{}}
}

func info() object { return object{"name": "mcpshop", "version": "1"} }

// fresh adds to a list what the protocol without sessions asks for.
func (v *visit) fresh(list object) object {
	if v.modern() {
		list["ttlMs"], list["cacheScope"] = 0, "private"
	}
	return list
}

// words is the content of a tool's result.
func words(text string) []object { return []object{{"type": "text", "text": text}} }

// result answers with a result.
func (v *visit) result(result object) { v.reply(v.resultMessage(result)) }

// resultMessage is the message with a result. In the protocol without sessions a result says of which type it is.
func (v *visit) resultMessage(result object) object {
	if v.modern() {
		if _, typed := result["resultType"]; !typed {
			result["resultType"] = "complete"
		}
		meta, _ := result["_meta"].(object)
		if meta == nil {
			meta = object{}
			result["_meta"] = meta
		}
		meta["io.modelcontextprotocol/serverInfo"] = info()
	}
	return object{"jsonrpc": "2.0", "id": v.ask.ID, "result": result}
}

// error answers with a JSON-RPC error.
func (v *visit) error(code int, words string) { v.reply(v.errorMessage(code, words, nil)) }

// errorMessage is the message with an error, which may have data.
func (v *visit) errorMessage(code int, words string, data any) object {
	e := object{"code": code, "message": words}
	if data != nil {
		e["data"] = data
	}
	return object{"jsonrpc": "2.0", "id": v.ask.ID, "error": e}
}

// fail answers with a status and a JSON-RPC error.
func (v *visit) fail(status, code int, words string) {
	m := v.errorMessage(code, words, nil)
	if len(v.ask.ID) == 0 {
		m["id"] = nil
	}
	honest.WriteJSON(v.w, status, m)
}
