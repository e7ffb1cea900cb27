module warren/interop

go 1.21

require github.com/xxl-job/xxl-job-executor-go v1.2.0
