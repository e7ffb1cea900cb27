// A Go executor, started as `interop ADMIN PORT FOLDER`.
//
// Each start of a handler is a line in FOLDER/starts.jsonl, whatever the gateway believes.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"

	xxl "github.com/xxl-job/xxl-job-executor-go"
)

const look = 20 * time.Millisecond

var port = os.Args[2]
var folder = os.Args[3]

func main() {
	executor := xxl.NewExecutor(
		xxl.ServerAddr(os.Args[1]),
		xxl.AccessToken(os.Getenv("TOKEN")),
		xxl.ExecutorIp("127.0.0.1"),
		xxl.ExecutorPort(port),
		xxl.RegistryKey(os.Getenv("APP")),
	)
	executor.Init()
	executor.RegTask("noop", noop)
	executor.RegTask("boom", boom)
	executor.RegTask("sleep", sleep)
	executor.RegTask("until-file", untilFile)
	log.Fatal(executor.Run())
}

func noop(_ context.Context, run *xxl.RunReq) string {
	noteStart(run)
	return "done"
}

func boom(_ context.Context, run *xxl.RunReq) string {
	noteStart(run)
	panic("not today")
}

func sleep(ctx context.Context, run *xxl.RunReq) string {
	noteStart(run)
	select {
	case <-ctx.Done():
		panic("told to stop")
	case <-time.After(time.Minute):
		return "slept"
	}
}

func untilFile(_ context.Context, run *xxl.RunReq) string {
	noteStart(run)
	for {
		if _, err := os.Stat(run.ExecutorParams); err == nil {
			return "released"
		}
		time.Sleep(look)
	}
}

func noteStart(run *xxl.RunReq) {
	number, err := strconv.Atoi(port)
	if err != nil {
		log.Fatal(err)
	}
	line := fmt.Sprintf(
		"{\"run\": %d, \"job\": %d, \"shard\": [%d, %d], \"port\": %d}\n",
		run.LogID, run.JobID, run.BroadcastIndex, run.BroadcastTotal, number,
	)
	path := filepath.Join(folder, "starts.jsonl")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(line); err != nil {
		log.Fatal(err)
	}
}
