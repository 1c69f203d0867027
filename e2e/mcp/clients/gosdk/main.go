// Command gosdk is the official MCP client for Go. It calls tools one after the other, and prints a line of JSON for
// each. Environment: SERVER is a URL; CALLS is a JSON list of {name, arguments}.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// got is a line of the output.
type got struct {
	Failure    string         `json:"failure,omitempty"`
	IsError    bool           `json:"isError"`
	Text       string         `json:"text"`
	Structured any            `json:"structured,omitempty"`
	Meta       map[string]any `json:"meta,omitempty"`
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var calls []*mcp.CallToolParams
	if err := json.Unmarshal([]byte(os.Getenv("CALLS")), &calls); err != nil {
		return err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: os.Getenv("SERVER")}, nil)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for _, call := range calls {
		var line got
		if result, err := session.CallTool(ctx, call); err != nil {
			line.Failure = err.Error()
		} else {
			line = got{IsError: result.IsError, Structured: result.StructuredContent, Meta: result.Meta}
			for _, part := range result.Content {
				if text, ok := part.(*mcp.TextContent); ok {
					line.Text += text.Text
				}
			}
		}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return session.Close()
}
